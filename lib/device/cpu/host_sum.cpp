#include "device/host_sum.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/sum_tile.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace gpt {
namespace {

/// Elements added at a time: all tiles of a deep tree stay in the first-level cache.
constexpr int64_t tile_size = 1024;

TileRounding rounding_to(DType dtype) {
  return dtype == DType::bf16 ? TileRounding::bf16 : TileRounding::none;
}

void read(float* tile, const Summand& from, Range range, TileWrite write) {
  if (from.dtype == DType::bf16)
    read_tile(tile, static_cast<const bfloat16*>(from.data) + range.begin, range.size(), write);
  else
    read_tile(tile, static_cast<const float*>(from.data) + range.begin, range.size(), write,
              rounding_to(from.travels_as));
}

void read(double* tile, const Summand& from, Range range, TileWrite write) {
  const double* source = static_cast<const double*>(from.data) + range.begin;
  for (int64_t i = 0; i < range.size(); ++i)
    tile[i] = write == TileWrite::add ? tile[i] + source[i] : source[i];
}

/// Evaluates the expression for the elements of `range`; the result is in tiles[0]. `Number` is what is added
/// in.
template <class Number, class Tiles>
void evaluate(Tiles& tiles, std::span<const Summand> summands, std::span<const int> order, Range range) {
  size_t depth = 0;
  for (size_t at = 0; at < order.size(); ++at) {
    if (order[at] == add_top) {
      Number* const below = tiles[depth - 2].data();
      const Number* const top = tiles[depth - 1].data();
      for (int64_t i = 0; i < range.size(); ++i) below[i] += top[i];
      --depth;
      continue;
    }
    const Summand& summand = summands[static_cast<size_t>(order[at])];
    const bool added_at_once = depth > 0 && at + 1 < order.size() && order[at + 1] == add_top;
    if (added_at_once) {
      read(tiles[depth - 1].data(), summand, range, TileWrite::add);
      ++at;
    } else {
      if (depth == tiles.size()) tiles.emplace_back();
      read(tiles[depth++].data(), summand, range, TileWrite::assign);
    }
  }
  ensures(depth == 1);
}

template <class Number, class Write>
void for_tiles(std::span<const Summand> summands, std::span<const int> order, int64_t size,
               const Write& write) {
  std::vector<std::array<Number, tile_size>> tiles;
  tiles.reserve(2);
  for (int64_t begin = 0; begin < size; begin += tile_size) {
    const Range range{begin, std::min(begin + tile_size, size)};
    evaluate<Number>(tiles, summands, order, range);
    write(tiles.front().data(), range);
  }
}

bool is_plain(const Summand& summand) {
  return summand.dtype == DType::f32 && summand.travels_as == DType::f32;
}

void append_tree(SumOrder& order, int begin, int end) {
  if (end - begin == 1) {
    order.push_back(begin);
    return;
  }
  int left = 1;  // summands of the left subtree: the largest power of two below all
  while (2 * left < end - begin) left *= 2;
  append_tree(order, begin, begin + left);
  append_tree(order, begin + left, end);
  order.push_back(add_top);
}

}  // namespace

SumOrder in_turn(int summands) {
  SumOrder order = {0};
  for (int i = 1; i < summands; ++i) order.insert(order.end(), {i, add_top});
  return order;
}

SumOrder as_tree(int summands) {
  SumOrder order;
  append_tree(order, 0, summands);
  return order;
}

void sum_arrays(Tensor out, std::span<const Summand> summands, std::span<const int> order, DType travels_as) {
  const bool is_pair = order.size() == 3 && out.dtype() == DType::f32 && travels_as == DType::f32 &&
                       std::ranges::all_of(summands, &is_plain);
  if (is_pair) {
    const auto array = [&](int i) {
      return static_cast<const float*>(summands[static_cast<size_t>(i)].data);
    };
    add_arrays(out.data<float>(), array(order[0]), array(order[1]), out.size());
    return;
  }
  switch (out.dtype()) {
    case DType::f64:
      for_tiles<double>(summands, order, out.size(), [&](const double* tile, Range range) {
        std::memcpy(out.data<double>() + range.begin, tile,
                    static_cast<size_t>(range.size()) * sizeof(double));
      });
      return;
    case DType::bf16:
      for_tiles<float>(summands, order, out.size(), [&](const float* tile, Range range) {
        round_to_bfloat16(out.data<bfloat16>() + range.begin, tile, range.size());
      });
      return;
    case DType::f32:
      for_tiles<float>(summands, order, out.size(), [&](const float* tile, Range range) {
        write_tile(out.data<float>() + range.begin, tile, range.size(), rounding_to(travels_as));
      });
      return;
    case DType::i32:
      break;
  }
  throw Error(fmt::format("sums of {}: use f32, bf16 or f64", name_of(out.dtype())));
}

}  // namespace gpt
