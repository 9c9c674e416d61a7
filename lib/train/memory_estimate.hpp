#pragma once

#include "comm/world.hpp"
#include "device/cpu_scratch.hpp"
#include "train/memory.hpp"
#include "train/options.hpp"
#include "train/plan.hpp"

#include <cstdint>

namespace gpt {

/// Where a rank stands among those that divide the optimizer's state (--zero).
struct StatePlace {
  int rank = 0, ranks = 1;
  int nodes = 1;
  int fewest = 1;         ///< ranks on the smallest node
  int ranks_of_node = 1;  ///< on this one's
  int rank_of_node = 0;   ///< this one, among them
};

/// This rank's. Collective.
StatePlace state_place(const World& world);

/// Sizes of a step from which working memory of operations follows.
/// @param threads  of the rank
ScratchShape scratch_shape(const TrainOptions& options, const Plan& plan, int threads);

/// What a rank is going to allocate, before anything is. Where sums are still to be chosen (--reduction
/// auto), for the way that divides the state over the fewest.
/// @param threads  of the rank
MemoryEstimate estimate_memory(const TrainOptions& options, const Plan& plan, const StatePlace& place,
                               int threads);

}  // namespace gpt
