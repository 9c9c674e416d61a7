#pragma once

#include "base/integers.hpp"
#include "data/dataset.hpp"
#include "data/lanes.hpp"
#include "train/options.hpp"
#include "train/train_state.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// What follows from options, dataset and rank: how long the run is and what this rank does of it.
struct Plan {
  int64_t steps = 0;
  int64_t lanes = 0;             ///< training shards
  int64_t windows_per_lane = 0;  ///< in an epoch
  int64_t windows_per_step = 0;  ///< of each lane
  int64_t tokens_per_step = 0;   ///< of the global batch
  Range sequences;               ///< of the global batch: this rank's
  int64_t all_leaves = 0;        ///< --reduction tree: micro-batches of the global batch
  Range leaves;                  ///< this rank's of them
  Range shards;                  ///< training shards that those come from
  int64_t micro_batch = 0;       ///< largest number of sequences held at a time

  Lanes make_lanes(uint64_t seed, const std::vector<Range>& skipped) const {
    return {lanes, windows_per_lane, seed, skipped};
  }
};

/// @throws Error(usage) if the batch does not fit the shards or the ranks, or the dataset has too few tokens,
/// with
///         the numbers that would do
/// @param done  where the run begins: --epochs counts from the beginning of training, whatever the batches
/// were
Plan make_plan(const TrainOptions& options, const Dataset& dataset, const TrainState& done, int rank,
               int ranks);

/// --reduction tree: the leaves of every rank, by rank. A leaf is a micro-batch of the global batch, whatever
/// the ranks: leaf l is its sequences from l · micro_batch on. Valid plans only.
std::vector<Range> leaves_of_ranks(const TrainOptions& options, int ranks);

}  // namespace gpt
