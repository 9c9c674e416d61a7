#include "train/stragglers.hpp"

#include <doctest/doctest.h>

namespace gpt {
namespace {

IntervalTimes computing(const std::vector<double>& seconds) {
  IntervalTimes times{.step = 10, .steps = 10, .of_rank = {}};
  for (const double compute : seconds) times.of_rank.push_back({.compute = compute});
  return times;
}

}  // namespace

TEST_CASE("a rank that is slow for several intervals is reported once, by rank and host") {
  Stragglers stragglers({"a", "a", "b", "b"}, {2, 2, 2, 2});
  const IntervalTimes slow = computing({0.1, 0.11, 0.2, 0.1}), even = computing({0.1, 0.11, 0.11, 0.1});
  CHECK(stragglers.add(slow).empty());
  CHECK(stragglers.add(slow).empty());
  const auto lines = stragglers.add(slow);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("rank 2 on b") != std::string::npos);
  CHECK(stragglers.add(slow).empty());
  CHECK(stragglers.add(even).empty());
  CHECK(stragglers.add(slow).empty());
  CHECK(stragglers.add(even).empty());
  CHECK(stragglers.add(slow).empty());
  CHECK(stragglers.add(slow).empty());
  CHECK(stragglers.add(slow).size() == 1);
}

TEST_CASE("a rank with more sequences is no straggler") {
  Stragglers stragglers({"a", "a", "b"}, {3, 2, 2});
  for (int i = 0; i < 5; ++i) CHECK(stragglers.add(computing({0.3, 0.2, 0.2})).empty());
  CHECK(stragglers.slowest(computing({0.31, 0.2, 0.21}), 2) == std::vector<int>{2, 0});
}

TEST_CASE("of two ranks the slower one is the straggler") {
  Stragglers stragglers({"a", "b"}, {1, 1});
  for (int i = 0; i < 2; ++i) CHECK(stragglers.add(computing({0.2, 0.1})).empty());
  const auto lines = stragglers.add(computing({0.2, 0.1}));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("rank 0 on a") != std::string::npos);
}

}  // namespace gpt
