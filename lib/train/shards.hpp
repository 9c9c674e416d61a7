#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "train/buckets.hpp"

#include <vector>

namespace gpt {

/// What this rank updates of every bucket, and whose gradients it adds to the norm.
struct Shards {
  bool sharded = false;                     ///< ZeRO-1: the rank updates parts of the buckets only
  std::vector<std::vector<Range>> updated;  ///< of each bucket, ranges of the flat buffers, ascending
  std::vector<Range> counted;               ///< ranges whose squares this rank sums; each has one such rank

  /// All that this rank updates, ascending.
  std::vector<Range> all_updated() const;
};

/// Every rank updates and counts everything.
Shards whole_shards(const Buckets& buckets);

/// ZeRO-1: what `comm` says that this rank owns, and the tails. Where several ranks own the same (a replica
/// on every node) the first one counts it; rank 0 counts the tails. Collective.
Shards owned_shards(const Buckets& buckets, Comm& comm, Device& device);

}  // namespace gpt
