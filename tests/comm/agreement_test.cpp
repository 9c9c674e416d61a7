#include "train/agreement.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <optional>
#include <string>
#include <vector>

namespace gpt {
namespace {

World make_world() {
  int argc = 0;
  char** argv = nullptr;
  return {argc, argv};
}

std::optional<SharedError> disagreement(const World& world, const Facts& facts) {
  try {
    compare_ranks(world, facts);
  } catch (const SharedError& error) {
    return error;
  }
  return {};
}

/// "ranks 0, 2 (n0, n1)"
std::string ranks_and_hosts(const World& world, const std::vector<int>& ranks) {
  const std::vector<std::string> host_of_rank = world.gather(world.host());
  std::vector<std::string> hosts;
  for (const int rank : ranks) {
    const std::string& host = host_of_rank[static_cast<size_t>(rank)];
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return fmt::format("rank{} {} ({})", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "),
                     fmt::join(hosts, ", "));
}

std::vector<int> all_but(const World& world, int odd) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank)
    if (rank != odd) ranks.push_back(rank);
  return ranks;
}

/// True on every rank if it is true on all.
bool on_all(bool value) {
  int mine = value ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return mine == 1;
}

TEST_CASE("ranks that agree are not stopped") {
  const World world = make_world();
  CHECK(on_all(!disagreement(world, {})));
  CHECK(on_all(!disagreement(world, {{"lr", "0.001"}, {"out", ""}})));
  CHECK(on_all(!disagreement(world, build_facts())));
}

TEST_CASE("one rank that differs is named with its value and everyone else's, on every rank alike") {
  const World world = make_world();
  if (world.size() == 1) return;
  for (int odd = 0; odd < world.size(); ++odd) {
    const bool is_odd = world.rank() == odd;
    const auto error = disagreement(world, {{"steps", "9"}, {"--lr", is_odd ? "0.002" : "0.001"}});
    const std::string expected =
        fmt::format("ranks do not agree, and must:\n  --lr: 0.001 on {}; 0.002 on {}",
                    ranks_and_hosts(world, all_but(world, odd)), ranks_and_hosts(world, {odd}));
    const bool right = error && error->code() == ExitCode::usage && std::string(error->what()) == expected;
    CAPTURE(std::string(error ? error->what() : "none"));
    CHECK(on_all(right));
  }
}

TEST_CASE("every field that differs is listed, with as many values as there are") {
  const World world = make_world();
  if (world.size() < 3) return;
  const std::string mine = std::to_string(world.rank());
  const auto error = disagreement(world, {{"a", "v" + mine}, {"b", ""}, {"c", world.rank() == 1 ? "" : "x"}});
  REQUIRE(on_all(error.has_value()));
  const std::string message = error->what();
  for (int rank = 0; rank < world.size(); ++rank)
    CHECK(on_all(message.find(fmt::format("v{0} on rank {0}", rank)) != std::string::npos));
  CHECK(on_all(message.find("\n  b:") == std::string::npos));
  const std::string third = fmt::format("\n  c: (empty) on {}; x on {}", ranks_and_hosts(world, {1}),
                                        ranks_and_hosts(world, all_but(world, 1)));
  CHECK(on_all(message.find(third) != std::string::npos));
}

TEST_CASE("settings in the environment of one rank alone are named, with its host") {
  const World world = make_world();
  const auto named = [&](const std::string& what) {
    const std::vector<std::string> differences = environment_differences(world);
    return on_all(std::ranges::count(differences, what) == 1);
  };
  const size_t before = environment_differences(world).size();
  if (world.rank() == world.size() - 1) setenv("UCX_TEST_SETTING", "a=b", 1);
  if (world.size() == 1) {
    CHECK(environment_differences(world).empty());
  } else {
    const int last = world.size() - 1;
    CHECK(named(fmt::format("UCX_TEST_SETTING is not the same everywhere: a=b on {}; not set on {}",
                            ranks_and_hosts(world, {last}), ranks_and_hosts(world, all_but(world, last)))));
  }
  setenv("UCX_TEST_SETTING", "", 1);
  setenv("OTHER_TEST_SETTING", std::to_string(world.rank()).c_str(), 1);
  CHECK(on_all(environment_differences(world).size() == before));
  unsetenv("UCX_TEST_SETTING");
  unsetenv("OTHER_TEST_SETTING");
}

TEST_CASE("a field that some ranks lack is a difference") {
  const World world = make_world();
  if (world.size() == 1) return;
  const auto error = disagreement(world, world.is_root() ? Facts{{"a", "1"}, {"b", "2"}} : Facts{{"a", "1"}});
  CHECK(on_all(error && std::string(error->what()).find("\n  b: 2 on rank 0") != std::string::npos));
}

}  // namespace
}  // namespace gpt
