#include "comm/layouts.hpp"
#include "comm/trainee.hpp"
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

/// The tree of one rank that has all leaves: its only node is the sum.
class Alone : public TreeComm {
public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "alone"; }
  void all_reduce(Tensor out, Tensor in, Queue& queue) override { comm_->all_reduce(out, in, queue); }
  void reduce_scatter(Tensor data, Queue& queue) override { comm_->reduce_scatter(data, queue); }
  void all_gather(Tensor data, Queue& queue) override { comm_->all_gather(data, queue); }
  void broadcast(Tensor data, int root, Queue& queue) override { comm_->broadcast(data, root, queue); }
  void barrier(Queue& queue) override { comm_->barrier(queue); }
  Range owned(int64_t count) const override { return comm_->owned(count); }
  bool is_first_owner() const override { return true; }
  int64_t owners() const override { return 1; }
  void sum_subtrees(Tensor out, const std::vector<Tensor>& subtrees, Queue&) override {
    CHECK(subtrees.size() == 1);
    CHECK(subtrees.front().raw() == out.raw());
  }
  void reduce_scatter_subtrees(Tensor out, const std::vector<Tensor>& subtrees, Queue& queue) override {
    sum_subtrees(out, subtrees, queue);
  }

private:
  std::unique_ptr<Comm> comm_ = make_mpi_comm(MPI_COMM_SELF);
};

struct Bits {
  std::vector<double> losses, norms;
  std::vector<float> params;
  bool operator==(const Bits&) const = default;
};

Bits trained(TreeComm& comm, const TraineeOptions& options) {
  Trainee trainee(comm, &comm, options);
  trainee.train(3);
  Outcome outcome = trainee.outcome();
  return {outcome.losses, outcome.norms, std::move(outcome.params)};
}

}  // namespace

TEST_CASE("training along the tree of leaves has the same bits on any number of ranks") {
  int argc = 0;
  char** argv = nullptr;
  const World world(argc, argv);
  Alone alone;
  for (const int64_t micro_batch : {int64_t{1}, int64_t{2}}) {
    const TraineeOptions options{.micro_batch = micro_batch, .checkpoint = {}};
    const Bits expected = trained(alone, options);
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
  Alone alone;
  const auto comm = make_mpi_comm(MPI_COMM_SELF);
  const TraineeOptions options{.checkpoint = {}};
  const Bits tree = trained(alone, options);
  Trainee plain(*comm, nullptr, options);
  plain.train(3);
  const Outcome outcome = plain.outcome();
  for (size_t i = 0; i < tree.losses.size(); ++i)
    CHECK(tree.losses[i] == doctest::Approx(outcome.losses[i]).epsilon(1e-5));
  CHECK(tree.norms.front() == doctest::Approx(outcome.norms.front()).epsilon(1e-5));
}

}  // namespace gpt
