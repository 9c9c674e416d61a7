#include "train/memory_estimate.hpp"

#include "comm/comm.hpp"
#include "comm/reduction_tree.hpp"
#include "device/cpu_scratch.hpp"
#include "model/activations.hpp"
#include "train/buckets.hpp"
#include "train/device_state.hpp"

#include <algorithm>

namespace gpt {
namespace {

constexpr int64_t moments = 2;  // of AdamW

/// Elements whose moments this rank holds.
int64_t updated_elements(const TrainOptions& options, const Layout& layout, const Buckets& buckets,
                         const StatePlace& place) {
  if (options.zero == "0") return layout.size();
  const int64_t lanes = int64_t{place.fewest} * place.nodes;
  const int64_t owners = options.reduction == "flat" ? place.ranks : lanes;
  const int64_t parts = options.zero == "node" ? place.nodes : 1;  // of a bucket, that this rank owns
  int64_t elements = 0;
  for (const Range& bucket : buckets.ranges()) {
    const int64_t part = bucket.size() / (owners * Comm::alignment) * Comm::alignment;
    elements += parts * part + bucket.size() - owners * part;
  }
  return elements;
}

int64_t scratch_bytes(const TrainOptions& options, const Plan& plan, int threads) {
  return cpu_scratch_bytes(
      {.sequences = plan.micro_batch,
       .context = options.model.context,
       .width = options.model.width,
       .heads = options.model.heads,
       .rows_of_classifier = options.model.padded_vocabulary(),
       .type = options.matrix_type(),
       .accumulates = options.reduction != "tree" && plan.sequences.size() > plan.micro_batch,
       .threads = threads});
}

}  // namespace

MemoryEstimate estimate_memory(const TrainOptions& options, const Plan& plan, const StatePlace& place,
                               int threads) {
  const Layout layout(options.model);
  const Buckets buckets(layout, options.bucket_bytes());
  const int64_t all = layout.size() * size_of(DType::f32);
  const int64_t copy =
      options.matrix_type() == DType::f32 ? 0 : layout.size() * size_of(options.matrix_type());
  const SavedSize saved{.states = 1 + moments, .gathers = options.zero != "0"};
  return {.parameters = all + copy,
          .gradients = all,
          .optimizer = moments * updated_elements(options, layout, buckets, place) * size_of(DType::f32),
          .tree = plan.leaves.empty() ? 0 : most_held_subtrees(plan.leaves, plan.all_leaves) * all,
          .activations = activation_bytes(options.model, plan.micro_batch, options.matrix_type(),
                                          recompute_named(options.recompute), true),
          .scratch = scratch_bytes(options, plan, threads),
          .saving = options.save_every == 0 ? 0 : saved.bytes(layout, buckets, place.ranks, place.rank)};
}

}  // namespace gpt
