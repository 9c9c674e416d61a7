#include "train/agreement.hpp"

#include "base/error.hpp"

#include <doctest/doctest.h>
#include <optional>
#include <string>

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
    std::string others;
    for (int rank = 0; rank < world.size(); ++rank)
      if (rank != odd) others += (others.empty() ? "" : ", ") + std::to_string(rank);
    const std::string expected =
        fmt::format("ranks do not agree, and must:\n  --lr: 0.001 on rank{} {}; 0.002 on rank {}",
                    world.size() > 2 ? "s" : "", others, odd);
    const bool right = error && error->code() == ExitCode::usage &&
                       std::string(error->what()).find(expected) == 0 &&
                       std::string(error->what()).find("steps") == std::string::npos;
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
  CHECK(on_all(message.find("\n  c: (empty) on rank 1; x on ranks 0, 2") != std::string::npos));
}

TEST_CASE("a field that some ranks lack is a difference") {
  const World world = make_world();
  if (world.size() == 1) return;
  const auto error = disagreement(world, world.is_root() ? Facts{{"a", "1"}, {"b", "2"}} : Facts{{"a", "1"}});
  CHECK(on_all(error && std::string(error->what()).find("\n  b: 2 on rank 0") != std::string::npos));
}

}  // namespace
}  // namespace gpt
