#include "train/memory_check.hpp"

#include "base/error.hpp"

#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace gpt;

namespace {

MemoryPool pool(const std::string& key, int64_t available) {
  return {.key = key, .name = "memory of " + key, .total = 100'000'000, .available = available};
}

}  // namespace

TEST_CASE("ranks that draw from one pool need it together") {
  const std::vector<MemoryDemand> demands = {
      {.bytes = 10, .pools = {pool("n0", 25), pool("rank 0", 15)}},
      {.bytes = 20, .pools = {pool("n0", 30), pool("rank 1", 15)}},
      {.bytes = 10, .pools = {pool("n1", 20)}},
  };
  const MemoryUse use = tightest(demands);
  CHECK(use.pool.key == "rank 1");  // 20 of 15 is worse than 30 of 25
  CHECK(use.ranks == std::vector<int>{1});
  CHECK_FALSE(use.fits());

  const MemoryUse node = tightest({demands[0], {.bytes = 20, .pools = {pool("n0", 30)}}, demands[2]});
  CHECK(node.pool.key == "n0");
  CHECK(node.pool.available == 25);  // what the last to look sees
  CHECK(node.needed == 30);
  CHECK(node.ranks == std::vector<int>{0, 1});
  CHECK_FALSE(node.fits());

  CHECK(tightest({demands[2]}).fits());
  CHECK(tightest({demands[2]}).share() == 0.5);
  CHECK_FALSE(tightest({{.bytes = 1, .pools = {pool("full", 0)}}}).fits());
  CHECK(tightest({{.bytes = 21, .pools = {pool("n1", 20)}}}).fits() == false);
  CHECK(tightest({{.bytes = 20, .pools = {pool("n1", 20)}}}).fits());
  CHECK(tightest({{.bytes = 10, .pools = {}}}).ranks.empty());
  CHECK(tightest({}).ranks.empty());
}

TEST_CASE("a demand survives as text, whatever a path is called") {
  const MemoryDemand demand{.bytes = int64_t{1} << 50, .pools = {pool("a \"b\"\n\xff", 7), pool("c", 0)}};
  const MemoryDemand read = demand_from_text(to_text(demand));
  CHECK(read.bytes == demand.bytes);
  REQUIRE(read.pools.size() == 2);
  CHECK(read.pools[0].available == 7);
  CHECK(read.pools[1].key == "c");
  CHECK(to_text(read) == to_text(demand));
  CHECK_THROWS_AS(demand_from_text("[1]"), Error);
}

TEST_CASE("what is short is said in one line") {
  CHECK(describe({.pool = pool("n1", 50'000'000), .needed = 60'000'000, .ranks = {0, 1}}) ==
        "memory of n1: 60.0 MB needed by 2 ranks, 50.0 MB available of 100.0 MB");
  CHECK(describe({.pool = pool("n1", 50'000'000), .needed = 12'000'000'000, .ranks = {3}}) ==
        "memory of n1: 12.0 GB needed by 1 rank, 50.0 MB available of 100.0 MB");
}

TEST_CASE("only what would help is offered, with what it saves") {
  TrainOptions options;
  options.model.vocabulary = 1000;
  Plan plan;
  plan.micro_batch = 6;
  plan.sequences = {0, 12};
  const auto ways = [&](const StatePlace& place, int64_t sharers) {
    return fmt::format("{}", fmt::join(ways_out(options, plan, place, 1, sharers), "; "));
  };
  const std::string all = ways({.ranks = 4, .nodes = 2, .fewest = 2}, 2);
  CHECK(all.find("--recompute block (saves ") != std::string::npos);
  CHECK(all.find("--micro-batch 3 (saves ") != std::string::npos);
  CHECK(all.find("--zero 1 (saves ") != std::string::npos);
  CHECK(all.find("fewer ranks a node") != std::string::npos);
  const auto undivided =
      ways_out(options, plan, {.ranks = 4, .nodes = 2, .fewest = 2}, 1, 2, StateDivision::never);
  CHECK(fmt::format("{}", fmt::join(undivided, "; ")).find("--zero") == std::string::npos);

  options.recompute = "block";
  plan.micro_batch = 1;
  plan.sequences = {0, 1};
  CHECK(ways({}, 1).empty());
  options.zero = "1";
  CHECK(ways({.ranks = 4, .nodes = 1, .fewest = 4}, 1).empty());
}
