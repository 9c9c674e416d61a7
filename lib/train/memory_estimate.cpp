#include "train/memory_estimate.hpp"

#include "comm/comm.hpp"
#include "comm/nccl_scratch.hpp"
#include "comm/reduction_tree.hpp"
#include "device/cuda_scratch.hpp"
#include "model/activations.hpp"
#include "train/adamw.hpp"
#include "train/buckets.hpp"
#include "train/device_state.hpp"
#include "train/node_checkpoint_room.hpp"

#include <algorithm>

namespace gpt {
namespace {

/// How many elements of buckets in `range` this rank updates.
int64_t updated_elements(const TrainOptions& options, const Buckets& buckets, Range range,
                         const StatePlace& place) {
  if (options.zero == "0") return range.size();
  const int64_t lanes = int64_t{place.fewest} * place.nodes;
  const int64_t owners = options.reduction == "flat" ? place.ranks : lanes;
  const int64_t parts = options.zero == "node" ? place.nodes : 1;  // of a bucket, that this rank owns
  int64_t elements = 0;
  for (const Range& bucket : buckets.ranges()) {
    if (bucket.begin < range.begin || bucket.end > range.end) continue;
    elements += parts * owned_part_size(bucket.size(), owners) + unowned_tail(bucket.size(), owners).size();
  }
  return elements;
}

/// See Weights.
int64_t weight_bytes(const TrainOptions& options, const Layout& layout, const Buckets& buckets,
                     const StatePlace& place) {
  const int64_t word = size_of(DType::f32), vectors = layout.vectors().size() * word;
  if (options.matrix_type() == DType::f32) return layout.matrices().size() * word + vectors;
  return layout.matrices().size() * size_of(options.matrix_type()) +
         updated_elements(options, buckets, layout.matrices(), place) * word + vectors;
}

/// What hops that round take of a GPU's memory. Where sums are still to be chosen, of those that round.
int64_t rounding_bytes(const TrainOptions& options, const StatePlace& place) {
  const Wire wire = wire_named(options.wire);
  const CommPlan plan{.reduction = options.reduction == "flat" ? Reduction::flat : Reduction::hierarchical,
                      .wire_node = wire.node,
                      .wire_peers = wire.peers};
  return nccl_scratch_bytes(plan, place.ranks_of_node, place.nodes);
}

/// Copies that are written from, of each kind of checkpoint its own.
int64_t copied_bytes(const TrainOptions& options, const SavedSize& saved, const Layout& layout,
                     const StatePlace& place) {
  if (!options.saves()) return 0;
  const int64_t for_disk = saved.copied(layout, place.ranks, place.rank);
  if (options.memory_every == 0) return for_disk;
  return for_disk + saved.copied(layout, place.ranks_of_node, place.rank_of_node);
}

int64_t scratch_bytes(const TrainOptions& options, const Plan& plan, int threads) {
  const ScratchShape shape = scratch_shape(options, plan, threads);
  if (options.device != "cuda") return cpu_scratch_bytes(shape);
  return cuda_scratch_bytes(shape, {.cudnn_attention = options.cudnn_attention()});
}

}  // namespace

StatePlace state_place(const World& world) {
  int fewest = world.size();
  for (const std::string& size : world.gather(std::to_string(world.node_size())))
    fewest = std::min(fewest, std::stoi(size));
  return {.rank = world.rank(),
          .ranks = world.size(),
          .nodes = world.nodes(),
          .fewest = fewest,
          .ranks_of_node = world.node_size(),
          .rank_of_node = world.node_rank()};
}

ScratchShape scratch_shape(const TrainOptions& options, const Plan& plan, int threads) {
  return {.sequences = plan.micro_batch,
          .context = options.model.context,
          .width = options.model.width,
          .heads = options.model.heads,
          .rows_of_classifier = options.model.padded_vocabulary(),
          .type = options.matrix_type(),
          .accumulates = options.reduction != "tree" && plan.sequences.size() > plan.micro_batch,
          .threads = threads};
}

MemoryEstimate estimate_memory(const TrainOptions& options, const Plan& plan, const StatePlace& place,
                               int threads) {
  const Layout layout(options.model);
  const Buckets buckets(layout, options.bucket_bytes());
  const int64_t all = layout.size() * size_of(DType::f32);
  const SavedSize saved{.states = 1 + AdamW::states, .gathers = options.zero != "0"};
  return {
      .parameters = weight_bytes(options, layout, buckets, place),
      .gradients = all,
      .optimizer =
          AdamW::states * updated_elements(options, buckets, {0, layout.size()}, place) * size_of(DType::f32),
      .tree = plan.leaves.empty() ? 0 : most_held_subtrees(plan.leaves, plan.all_leaves) * all,
      .activations = activation_bytes(options.model, plan.micro_batch, options.matrix_type(),
                                      recompute_named(options.recompute), true),
      .scratch = scratch_bytes(options, plan, threads) +
                 (options.device == "cuda" ? rounding_bytes(options, place) : 0),
      .gathering = options.kinds_of_saves() * saved.gathered(buckets),
      .saving = copied_bytes(options, saved, layout, place),
      .node_checkpoints = options.memory_every == 0
                              ? 0
                              : ceil_div(node_checkpoints_size(layout, saved.states), place.ranks_of_node)};
}

}  // namespace gpt
