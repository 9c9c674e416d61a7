#include "data/lanes.hpp"

#include "data/permutation.hpp"
#include "unit/small_dataset.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>
#include <vector>

using namespace gpt;

namespace {

std::vector<int64_t> order_of(const Lanes& lanes, int64_t lane, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < lanes.windows_per_lane(); ++i) {
    const WindowId id = lanes.window(lane, epoch * lanes.windows_per_lane() + i);
    REQUIRE(id.lane == lane);
    REQUIRE(id.epoch == epoch);
    order.push_back(id.index);
  }
  return order;
}

bool is_permutation_of_all(std::vector<int64_t> order) {
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every epoch of every lane passes through all windows once") {
  for (const int64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 15685}) {
    CAPTURE(size);
    const Lanes lanes(2, size, 42);
    for (int64_t lane = 0; lane < 2; ++lane) {
      for (int64_t epoch = 0; epoch < 3; ++epoch) CHECK(is_permutation_of_all(order_of(lanes, lane, epoch)));
    }
  }
}

TEST_CASE("epochs, lanes and seeds have different orders") {
  for (const int64_t size : {100, 15685}) {
    const Lanes lanes(2, size, 42);
    const auto first = order_of(lanes, 0, 0);
    CHECK(first != order_of(lanes, 0, 1));
    CHECK(first != order_of(lanes, 1, 0));
    CHECK(first != order_of(Lanes(2, size, 43), 0, 0));
    CHECK(first == order_of(Lanes(5, size, 42), 0, 0));  // neither a neighbour nor the time matters
  }
  const Lanes small(1, 3, 7);
  std::set<std::vector<int64_t>> seen;
  for (int64_t epoch = 0; epoch < 200; ++epoch) seen.insert(order_of(small, 0, epoch));
  CHECK(seen.size() == 6);
}

TEST_CASE("the order of three windows is every order about equally often") {
  const Lanes lanes(1, 3, 1);
  std::vector<int> times(9);
  constexpr int epochs = 6000;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto order = order_of(lanes, 0, epoch);
    for (int64_t i = 0; i < 3; ++i) ++times[static_cast<size_t>(3 * i + order[static_cast<size_t>(i)])];
  }
  for (const int count : times) CHECK(std::abs(count - epochs / 3) < 250);
}

TEST_CASE("neighbours in a large epoch are far apart") {
  const Lanes lanes(1, 1'000'000, 3);
  int64_t near = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    near += std::abs(lanes.window(0, i).index - lanes.window(0, i + 1).index) < 1000;
  }
  CHECK(near < 20);  // 4 are expected
}

TEST_CASE("a batch takes consecutive windows of each lane") {
  const Lanes lanes(4, 100, 9);
  for (int64_t sequence = 0; sequence < 12; ++sequence) {
    CHECK(lanes.sequence(sequence, 12, 98) == lanes.window(sequence / 3, 98 + sequence % 3));
  }
  CHECK(lanes.sequence(2, 12, 98).epoch == 1);
  CHECK(lanes.windows_per_epoch() == 400);
}

TEST_CASE("a permutation works on sizes that need all bits") {
  const int64_t size = (int64_t{1} << 62) + 12345;
  const Permutation order(size, 5);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t value = order(size - 1 - i);
    CHECK(value >= 0);
    CHECK(value < size);
    seen.insert(value);
  }
  CHECK(seen.size() == 100);
}

TEST_CASE("a permutation knows the positions of values") {
  for (const int64_t size : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{1000}, int64_t{1024}, int64_t{1025},
                             (int64_t{1} << 62) + 12345}) {
    CAPTURE(size);
    const Permutation order(size, 5);
    std::vector<int64_t> positions(static_cast<size_t>(std::min<int64_t>(size, 1025)));
    const int64_t first = size - std::ssize(positions);
    InversePermutation(order).positions_of(first, positions);
    int64_t right = 0;
    for (size_t i = 0; i < positions.size(); ++i)
      right += order(positions[i]) == first + static_cast<int64_t>(i);
    CHECK(right == std::ssize(positions));
  }
}

TEST_CASE("lanes without windows are refused") {
  CHECK(test::error_of([] { Lanes(0, 1, 0); }).code() == ExitCode::usage);
  CHECK(test::error_of([] { Lanes(1, 0, 0); }).code() == ExitCode::usage);
}

TEST_CASE("windows that are passed over are seen by nobody, all others once and in their order") {
  const std::vector<Range> skipped = {{0, 2}, {5, 8}, {19, 24}};
  const Lanes all(2, 20, 42), some(2, 20, 42, skipped);
  int64_t cursor = 0;
  for (int64_t place = 0; place < 60; ++place) {
    const bool passed =
        std::ranges::any_of(skipped, [&](Range range) { return range.begin <= place && place < range.end; });
    if (passed) continue;
    CAPTURE(place);
    CHECK(some.place_of(cursor) == place);
    CHECK(some.window(1, cursor) == all.window(1, place));
    ++cursor;
  }
  CHECK(cursor == 50);
}

TEST_CASE("ranges that touch are joined") {
  CHECK(with_range({}, {4, 6}) == std::vector<Range>{{4, 6}});
  CHECK(with_range({{4, 6}}, {0, 2}) == std::vector<Range>{{0, 2}, {4, 6}});
  CHECK(with_range({{0, 2}, {4, 6}, {9, 10}}, {2, 4}) == std::vector<Range>{{0, 6}, {9, 10}});
  CHECK(with_range({{0, 2}, {4, 6}}, {1, 20}) == std::vector<Range>{{0, 20}});
}
