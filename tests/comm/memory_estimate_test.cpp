#include "train/memory_estimate.hpp"

#include "comm/layouts.hpp"
#include "comm/tree_comm.hpp"
#include "comm/world.hpp"
#include "support/counting_device.hpp"
#include "train/adamw.hpp"
#include "train/comm_plan.hpp"
#include "train/gradient_tree.hpp"
#include "train/owned_parts.hpp"

#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <vector>

namespace gpt {
namespace {

/// What a rank of a run with these options allocates, in the order of a Trainer.
MemoryEstimate allocated(const TrainOptions& options, const Plan& plan, const StatePlace& place, Comm& comm) {
  const Layout layout(options.model);
  const Buckets buckets(layout, options.bucket_bytes());
  test::CountingDevice device;
  MemoryEstimate taken;
  const auto note = [&](int64_t& part) {
    part = device.given;
    device.given = 0;
  };
  const OwnedParts owned = options.zero == "0" ? all_parts(buckets) : owned_parts(buckets, comm);
  const Weights weights =
      owned.sharded ? Weights(layout, device, owned, ReadWeights(layout, options.matrix_type(), device))
                    : Weights(layout, device, options.matrix_type());
  note(taken.parameters);
  const TensorBuffer gradients(device, DType::f32, {layout.size()});
  note(taken.gradients);
  const AdamW optimizer(layout, device, weights, gradients, adamw_rates(options), owned);
  note(taken.optimizer);
  std::optional<GradientTree> tree;
  if (!plan.leaves.empty()) tree.emplace(device, gradients, plan.leaves, plan.all_leaves);
  note(taken.tree);
  const Gpt model(options.model, device, plan.micro_batch, weights.with(gradients),
                  recompute_named(options.recompute));
  note(taken.activations);

  std::vector<DeviceState> states = optimizer.state();
  states.push_back(weights.state());
  const SavedParts saved(states, layout, buckets, comm, device);
  std::optional<SavedParts> of_node;
  if (options.memory_every > 0)
    of_node.emplace(states, checkpoint_part(layout, place.ranks_of_node, place.rank_of_node), buckets, comm,
                    device);
  note(taken.saving);
  return taken;
}

Plan plan_of(const TrainOptions& options, int rank, int ranks) {
  Plan plan;
  plan.sequences = part_of(options.global_batch, ranks, rank);
  plan.micro_batch = std::min(options.micro_batch, plan.sequences.size());
  if (options.reduction == "tree") {
    const std::vector<Range> leaves = leaves_of_ranks(options, ranks);
    plan.leaves = leaves[static_cast<size_t>(rank)];
    plan.all_leaves = leaves.back().end;
  }
  return plan;
}

}  // namespace

TEST_CASE("what ranks allocate is what was estimated before") {
  int argc = 0;
  char** argv = nullptr;
  TrainOptions options;
  options.model = {.layers = 2, .heads = 2, .width = 64, .context = 16, .vocabulary = 300};
  options.global_batch = 40;
  options.micro_batch = 2;
  options.bucket_mb = 0.1;
  options.inter = "ring";
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const std::string& layout : test::layouts_for(ranks)) {
    World world(argc, argv);
    world.set_layout({layout});
    const StatePlace place = state_place(world);
    for (const char* const reduction : {"flat", "hierarchical", "tree"})
      for (const char* const zero : {"0", "1", "node"}) {
        options.reduction = reduction;
        options.zero = zero;
        options.memory_every = options.zero == "0" ? 0 : 10;
        if (options.zero == "node" && options.reduction != "hierarchical") continue;
        const std::unique_ptr<Comm> comm =
            options.reduction == "tree"
                ? make_tree_comm(world, comm_plan(options), leaves_of_ranks(options, world.size()))
                : make_comm(world, comm_plan(options));
        const Plan plan = plan_of(options, world.rank(), world.size());
        for (const char* const precision : {"fp32", "bf16"})
          for (const char* const recompute : {"none", "attention", "block"}) {
            options.precision = precision;
            options.recompute = recompute;
            INFO(layout, " ", reduction, " zero ", zero, " ", precision, " ", recompute);
            const MemoryEstimate estimate = estimate_memory(options, plan, place, 1);
            const MemoryEstimate taken = allocated(options, plan, place, *comm);
            CHECK(taken.gradients == estimate.gradients);
            CHECK(taken.activations == estimate.activations);
            CHECK(taken.saving == estimate.gathering + estimate.saving);
            // Beside gradients of subtrees the tree has a loss for each leaf.
            CHECK(taken.tree == estimate.tree + plan.all_leaves * static_cast<int64_t>(size_of(DType::f64)));
            // Surplus ranks of uneven nodes own nothing; a tree may be divided over more ranks.
            const bool is_owner = !comm->owned(int64_t{1} << 40).empty();
            if (options.zero == "0" || (is_owner && options.reduction != "tree")) {
              CHECK(taken.parameters == estimate.parameters);
              CHECK(taken.optimizer == estimate.optimizer);
            } else {
              CHECK(taken.parameters <= estimate.parameters);
              CHECK(taken.optimizer <= estimate.optimizer);
            }
          }
      }
  }
}

}  // namespace gpt
