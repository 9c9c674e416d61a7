#include "attention_case.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace gpt;
using namespace gpt::test;
using reference::AttentionSizes;

namespace {

// sequences, positions, heads, head_size
constexpr AttentionSizes cases[] = {{1, 1, 1, 1},    {1, 1, 2, 8},    {2, 7, 3, 5},   {2, 65, 2, 20},
                                    {1, 257, 1, 64}, {3, 64, 4, 32},  {2, 33, 3, 8},  {1, 128, 2, 64},
                                    {1, 130, 2, 40}, {1, 63, 1, 128}, {1, 16, 1, 16}, {1, 17, 1, 17},
                                    {1, 193, 1, 8}};
constexpr Dropout none{};
constexpr Dropout dropping{.rate = 0.25F, .seed = 77, .step = 12, .site = 9, .first_sequence = 3};

/// Every result of attention, its backward and attention_cached.
std::vector<Array> run_attention(Device& device, DType type, const AttentionSizes& s,
                                 const Dropout& dropout) {
  const int64_t elements = s.sequences * s.positions * s.width();
  const Guarded qkv(type, {s.sequences, s.positions, 3 * s.width()}, random_floats(3 * elements, 1));
  const Guarded dy(type, {s.sequences, s.positions, s.width()}, random_floats(elements, 2));
  const Guarded y(type, {s.sequences, s.positions, s.width()});
  const Guarded log_sum(DType::f32, {s.sequences, s.heads, s.positions});
  const Guarded dqkv(type, {s.sequences, s.positions, 3 * s.width()});
  const Guarded y_cached(type, {s.sequences, s.positions, s.width()});
  const Guarded keys(type, {s.sequences, s.heads, s.positions, s.head_size});
  const Guarded values(type, {s.sequences, s.heads, s.positions, s.head_size});
  const auto queue = device.make_queue();
  device.ops().attention(y, log_sum, qkv, s.heads, dropout, *queue);
  device.ops().attention_backward(dqkv, dy, y, qkv, log_sum, s.heads, dropout, *queue);
  device.ops().attention_cached(y_cached, keys, values, qkv, 0, s.heads, *queue);
  std::vector<Array> results;
  for (const Guarded* tensor : {&y, &log_sum, &dqkv, &y_cached, &keys, &values})
    results.push_back(tensor->values());
  return results;
}

}  // namespace

TEST_CASE("attention and its backward agree with the reference") {
  for (const AttentionSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (DType type : float_types) {
        const AttentionCase given = attention_case(s, dropout, type);
        for (const auto& device : devices()) {
          INFO(attention_name(s, dropout, type), " on ", device->name());
          const Guarded qkv_in(type, {s.sequences, s.positions, 3 * s.width()}, given.qkv);
          const Guarded y(type, {s.sequences, s.positions, s.width()});
          const Guarded log_sum(DType::f32, {s.sequences, s.heads, s.positions});
          const auto queue = device->make_queue();
          device->ops().attention(y, log_sum, qkv_in, s.heads, dropout, *queue);
          CHECK(max_error(y.values(), given.expected.y) < tolerance_of(type));
          CHECK(max_error(log_sum.values(), given.expected.log_sum) < tolerance);
          CHECK(y.intact());
          CHECK(log_sum.intact());

          const Guarded dy_in(type, {s.sequences, s.positions, s.width()}, given.dy);
          const Guarded dqkv(type, {s.sequences, s.positions, 3 * s.width()});
          device->ops().attention_backward(dqkv, dy_in, y, qkv_in, log_sum, s.heads, dropout, *queue);
          check_gradients(s, type, multiplies_pairs(), dqkv.values(), given.expected_dqkv);
          CHECK(dqkv.intact());
        }
      }
}

TEST_CASE("attention survives scores far apart") {
  const AttentionSizes s{1, 70, 1, 16};
  for (DType type : float_types) {
    const Array qkv = rounded(random_floats(s.positions * 3 * s.width(), 1, 30.0), type);
    const auto expected = reference::attention(s, qkv, {});
    const Guarded qkv_in(type, {1, s.positions, 3 * s.width()}, qkv);
    const Guarded y(type, {1, s.positions, s.width()});
    const Guarded log_sum(DType::f32, {1, 1, s.positions});
    // A score of 10⁴ has an absolute rounding error of 10⁻³.
    const double tolerance_of_y = std::max(1e-3, tolerance_of(type));
    for (const auto& device : devices()) {
      INFO(std::string(name_of(type)), " on ", device->name());
      device->ops().attention(y, log_sum, qkv_in, 1, {}, *device->make_queue());
      CHECK(max_error(y.values(), expected.y) < tolerance_of_y);
      CHECK(max_error(log_sum.values(), expected.log_sum) < tolerance);
    }
  }
}

TEST_CASE("attention gives the same bits every time, with one and with two threads" *
          doctest::test_suite("cpu")) {
  for (const AttentionSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (DType type : float_types) {
        INFO(attention_name(s, dropout, type));
        const auto once = run_attention(*devices().front(), type, s, dropout);
        CHECK(once == run_attention(*devices().front(), type, s, dropout));
        CHECK(once == run_attention(*devices().back(), type, s, dropout));
      }
}

namespace {

/// Positions [piece) of every sequence of an array (sequences, positions, columns).
Array cut_out(const Array& whole, const AttentionSizes& s, int64_t columns, Range piece) {
  Array part;
  for (int64_t sequence = 0; sequence < s.sequences; ++sequence) {
    const auto first = whole.begin() + sequence * s.positions * columns;
    part.insert(part.end(), first + piece.begin * columns, first + piece.end * columns);
  }
  return part;
}

/// What attention_cached made of sequences that it read in pieces of `cut` positions.
struct CachedAttention {
  Array y;             ///< piece after piece
  Array keys, values;  ///< with room for `spare` positions more
  bool intact = true;
};
constexpr int64_t spare = 3;

CachedAttention attend_in_pieces(Device& device, DType type, const AttentionSizes& s, const Array& qkv,
                                 int64_t cut) {
  const Guarded keys(type, {s.sequences, s.heads, s.positions + spare, s.head_size});
  const Guarded values(type, {s.sequences, s.heads, s.positions + spare, s.head_size});
  const auto queue = device.make_queue();
  CachedAttention result;
  for (int64_t position = 0; position < s.positions; position += cut) {
    const Range piece{position, std::min(position + cut, s.positions)};
    const Guarded qkv_in(type, {s.sequences, piece.size(), 3 * s.width()},
                         cut_out(qkv, s, 3 * s.width(), piece));
    const Guarded y(type, {s.sequences, piece.size(), s.width()});
    device.ops().attention_cached(y, keys, values, qkv_in, position, s.heads, *queue);
    const Array part = y.values();
    result.y.insert(result.y.end(), part.begin(), part.end());
    result.intact = result.intact && y.intact();
  }
  result.keys = keys.values();
  result.values = values.values();
  result.intact = result.intact && keys.intact() && values.intact();
  return result;
}

Array in_pieces(const Array& whole, const AttentionSizes& s, int64_t columns, int64_t cut) {
  Array parts;
  for (int64_t position = 0; position < s.positions; position += cut) {
    const Array part = cut_out(whole, s, columns, {position, std::min(position + cut, s.positions)});
    parts.insert(parts.end(), part.begin(), part.end());
  }
  return parts;
}

}  // namespace

TEST_CASE("attention_cached agrees with attention over the whole sequence, however it is cut") {
  for (const AttentionSizes& s : cases)
    for (DType type : float_types) {
      const int64_t width = s.width();
      const Array qkv = rounded(random_floats(3 * s.sequences * s.positions * width, 1), type);
      const Array expected = reference::attention(s, qkv, {}).y;
      for (int64_t cut : {int64_t{1}, int64_t{5}, s.positions})
        for (const auto& device : devices()) {
          INFO(case_name("attention_cached", {s.sequences, s.positions, s.heads, s.head_size, cut}), " ",
               std::string(name_of(type)), " on ", device->name());
          const CachedAttention cached = attend_in_pieces(*device, type, s, qkv, cut);
          CHECK(max_error(cached.y, in_pieces(expected, s, width, cut)) < tolerance_of(type));
          CHECK(cached.intact);
          bool kept = true;
          for (int64_t i = 0; i < s.sequences * s.positions * width; ++i) {
            const int64_t row = i / width, column = i % width;
            const int64_t sequence = row / s.positions, position = row % s.positions;
            const int64_t head = sequence * s.heads + column / s.head_size;
            const int64_t at = (head * (s.positions + spare) + position) * s.head_size + column % s.head_size;
            const double* from = qkv.data() + row * 3 * width + column;
            kept = kept && cached.keys[at] == from[width] && cached.values[at] == from[2 * width];
          }
          CHECK(kept);
        }
    }
}

TEST_CASE("attention_cached of a sequence has the same bits whatever is beside it") {
  const AttentionSizes three{3, 37, 3, 20}, one{1, 37, 3, 20};
  for (DType type : float_types)
    for (const auto& device : devices())
      for (int64_t cut : {int64_t{1}, three.positions}) {
        const int64_t elements = three.positions * three.width();
        const Array qkv = random_floats(three.sequences * 3 * elements, 1);
        const Array alone(qkv.begin() + 3 * elements, qkv.begin() + 6 * elements);
        const Array y = attend_in_pieces(*device, type, three, qkv, cut).y;
        const Array y_alone = attend_in_pieces(*device, type, one, alone, cut).y;
        const int64_t piece = cut * three.width();
        bool same = true;
        for (int64_t i = 0; i < elements; ++i)
          same = same && y_alone[i] == y[(3 * (i / piece) + 1) * piece + i % piece];
        CHECK(same);
      }
}
