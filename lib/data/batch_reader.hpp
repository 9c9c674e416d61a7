#pragma once

#include "base/integers.hpp"
#include "data/dataset.hpp"
#include "data/lanes.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace gpt {

/// Where a sequence was read.
struct WindowRead {
  int64_t shard = 0;
  int64_t token = 0;  ///< of the shard: the sequence's first
  bool operator==(const WindowRead&) const = default;
};

/// Sequences on the host: inputs and targets (count, context), targets one token ahead.
struct HostBatch {
  int64_t first_sequence = 0;  ///< index of the first in the global batch
  int64_t count = 0;
  std::vector<WindowRead> reads;  ///< of each
  std::vector<Token> inputs;
  std::vector<Token> targets;
};

/// This rank's part of every training batch, read ahead by a thread while the step before computes.
class BatchReader {
public:
  /// @param sequences  this rank's part of the global batch
  /// `dataset` has the shards that those sequences come from open, and outlives the reader
  BatchReader(const Dataset& dataset, const Lanes& lanes, int64_t context, int64_t global_batch,
              Range sequences);
  ~BatchReader();

  /// The batch at `cursor`; starts reading the one at cursor + global_batch/lanes. Valid until the next call.
  /// Rethrows what reading threw.
  const HostBatch& next(int64_t cursor);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
