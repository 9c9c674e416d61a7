#include "comm/layouts.hpp"
#include "comm/trainee.hpp"
#include "comm/tree_comm.hpp"
#include "comm/world.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

using test::Outcome;
using test::Trainee;
using test::TraineeOptions;

struct Bits {
  std::vector<double> losses, norms;
  std::vector<float> params;
  bool operator==(const Bits&) const = default;
};

Bits trained(Comm& comm, TraineeOptions options) {
  options.leaves = true;
  Trainee trainee(comm, options);
  trainee.train(3);
  Outcome outcome = trainee.outcome();
  return {outcome.losses, outcome.norms, std::move(outcome.weights)};
}

}  // namespace

TEST_CASE("training along the tree of leaves has the same bits on any number of ranks") {
  int argc = 0;
  char** argv = nullptr;
  const World world(argc, argv);
  const auto alone = make_mpi_comm(MPI_COMM_SELF);  // with all leaves, of which the only subtree is the sum
  for (const int64_t micro_batch : {int64_t{1}, int64_t{2}}) {
    const TraineeOptions options{.micro_batch = micro_batch, .checkpoint = {}};
    const Bits expected = trained(*alone, options);
    CHECK(std::isfinite(expected.norms.back()));
    for (const std::string& layout : test::layouts_for(world.size())) {
      INFO("micro-batch ", micro_batch, ", layout ", layout);
      World pretended(argc, argv);
      pretended.set_layout({layout});
      const auto leaves = Trainee::leaves_of_ranks(world.size(), micro_batch);
      const auto comm = make_tree_comm(pretended, {.reduction = Reduction::tree}, leaves);
      CHECK(trained(*comm, options) == expected);
      CHECK(trained(*comm, {.micro_batch = micro_batch, .sharded = true, .checkpoint = {}}) == expected);
      CHECK(trained(*comm, {.micro_batch = micro_batch, .bucket_mb = 25.0, .checkpoint = {}}) == expected);
    }
  }
}

TEST_CASE("the tree's training is that of plain sums to rounding") {
  const auto alone = make_mpi_comm(MPI_COMM_SELF);
  const TraineeOptions options{.checkpoint = {}};
  const Bits tree = trained(*alone, options);
  Trainee plain(*alone, options);
  plain.train(3);
  const Outcome outcome = plain.outcome();
  for (size_t i = 0; i < tree.losses.size(); ++i)
    CHECK(tree.losses[i] == doctest::Approx(outcome.losses[i]).epsilon(1e-5));
  CHECK(tree.norms.front() == doctest::Approx(outcome.norms.front()).epsilon(1e-5));
}

}  // namespace gpt
