#include "comm/division.hpp"

#include "comm/comm.hpp"
#include "comm/mpi_group.hpp"

#include <algorithm>
#include <climits>
#include <doctest/doctest.h>
#include <tuple>
#include <vector>

namespace gpt {
namespace {

// Pieces are only addresses here: nothing is read, so that any count will do.
Range range_of(const Tensor& piece) {
  const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(piece.raw())) / 2 - 32;
  return {begin, begin + piece.size()};
}

Tensor tensor_of(int64_t count) { return {reinterpret_cast<void*>(uintptr_t{64}), DType::bf16, {count}}; }

}  // namespace

TEST_CASE("the blocks of all lanes together are every element once") {
  for (const int64_t count :
       {int64_t{0}, int64_t{1}, int64_t{1023}, int64_t{100'003}, int64_t{3'000'000'011}}) {
    for (const auto& [lanes, nodes] : {std::tuple{1, 1}, {1, 4}, {3, 1}, {2, 3}, {8, 4}}) {
      const Division division(count, lanes, nodes, count / 100);
      std::vector<Range> ranges;
      for (int lane = 0; lane < lanes; ++lane) {
        for (int64_t block = 0; block < division.blocks(); ++block) {
          const Pieces pieces = division.pieces(tensor_of(count), lane, block);
          REQUIRE(std::ssize(pieces) == nodes);
          for (const auto& piece : pieces) ranges.push_back(range_of(piece.front()));
        }
      }
      std::erase_if(ranges, [](const Range& range) { return range.empty(); });
      std::ranges::sort(ranges, {}, &Range::begin);
      int64_t end = 0;
      for (const Range& range : ranges) {
        CHECK(range.begin == end);
        end = range.end;
      }
      CHECK(end == count);
    }
  }
}

TEST_CASE("a node's part of a lane is the same whatever the blocks") {
  constexpr int64_t lanes = 2, nodes = 3, count = lanes * nodes * 5000 + 77;
  for (const int64_t block : {1, 4096, 1 << 20}) {
    const Division division(count, lanes, nodes, block);
    CHECK(division.part_size() == 4096);
    for (int64_t b = 0; b < division.blocks(); ++b) {
      if (division.is_tail(b)) continue;
      const Range piece = range_of(division.pieces(tensor_of(count), 1, b)[2].front());
      CHECK(piece.begin >= 5 * 4096);
      CHECK(piece.end <= 6 * 4096);
    }
  }
}

TEST_CASE("counts beyond an int are cut into calls that MPI can count") {
  int64_t end = 0;
  for (const Range& chunk : chunks_of({0, 3'000'000'000}, default_chunk)) {
    CHECK(chunk.begin == end);
    CHECK((chunk.size() > 0 && chunk.size() <= INT_MAX));
    end = chunk.end;
  }
  CHECK(end == 3'000'000'000);
  CHECK(chunks_of({5, 5}, 10).empty());
  CHECK(chunks_of({5, 16}, 10) == std::vector<Range>{{5, 15}, {15, 16}});
}

}  // namespace gpt
