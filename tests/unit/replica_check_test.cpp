#include "train/replica_check.hpp"

#include <doctest/doctest.h>

namespace gpt {
namespace {

using Ranks = std::vector<int>;
using Hashes = std::vector<std::vector<uint64_t>>;

TEST_CASE("what most ranks hold tells who deviates") {
  CHECK_FALSE(find_deviation(Hashes{{1, 2, 3}}).has_value());
  CHECK_FALSE(find_deviation({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}}).has_value());

  const auto one = find_deviation({{1, 2, 3}, {1, 9, 8}, {1, 2, 3}});
  REQUIRE(one.has_value());
  CHECK(one->index == 1);
  CHECK(one->hashes == 2);
  CHECK(one->ranks == Ranks{1});
  CHECK(one->agreeing == Ranks{0, 2});

  const auto first = find_deviation({{7, 2}, {1, 2}, {1, 2}});
  REQUIRE(first.has_value());
  CHECK(first->index == 0);
  CHECK(first->hashes == 1);
  CHECK(first->ranks == Ranks{0});
  CHECK(first->agreeing == Ranks{1, 2});
}

TEST_CASE("without a majority nobody can be told from the others") {
  const std::vector<Hashes> cases = {Hashes{{1}, {2}}, Hashes{{1}, {2}, {3}}, Hashes{{1}, {1}, {2}, {2}}};
  for (const Hashes& of_rank : cases) {
    const auto deviation = find_deviation(of_rank);
    REQUIRE(deviation.has_value());
    CHECK(deviation->ranks.size() == of_rank.size());
    CHECK(deviation->agreeing.empty());
  }
}

}  // namespace
}  // namespace gpt
