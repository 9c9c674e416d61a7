#include "comm/mpi_group.hpp"

#include <climits>
#include <doctest/doctest.h>

namespace gpt {

TEST_CASE("aligned cuts cover everything, are equal where possible, and leave surplus ranks without a part") {
  for (const int64_t count : {0, 1, 15, 16, 17, 100, 4096, 100003}) {
    for (const int64_t lanes : {1, 2, 3, 7}) {
      const std::vector<Range> parts = cut_aligned(count, lanes, lanes + 2, 16);
      REQUIRE(std::ssize(parts) == lanes + 2);
      int64_t end = 0;
      for (const Range& part : parts) {
        CHECK(part.begin == end);
        CHECK((part.begin % 16 == 0 || part.begin == count));
        CHECK(part.size() >= 0);
        CHECK(part.size() <= round_up(ceil_div(count, lanes), 16) + 16);
        end = part.end;
      }
      CHECK(end == count);
      CHECK(parts[static_cast<size_t>(lanes)].empty());
    }
  }
  CHECK(cut_aligned(96, 3, 3, 16) == std::vector<Range>{{0, 32}, {32, 64}, {64, 96}});
}

TEST_CASE("counts beyond an int are cut into calls that MPI can count") {
  constexpr int64_t count = 3'000'000'000;
  const std::vector<Range> parts = cut_aligned(count, 8, 8, 16);
  CHECK(parts[7].end == count);
  for (const Range& part : parts) {
    int64_t end = part.begin;
    for (const Range& chunk : chunks_of(part, 1 << 26)) {
      CHECK(chunk.begin == end);
      CHECK((chunk.size() > 0 && chunk.size() <= INT_MAX));
      end = chunk.end;
    }
    CHECK(end == part.end);
  }
  CHECK(chunks_of({5, 5}, 10).empty());
  CHECK(chunks_of({5, 16}, 10) == std::vector<Range>{{5, 15}, {15, 16}});
}

}  // namespace gpt
