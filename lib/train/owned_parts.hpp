#pragma once

#include "comm/comm.hpp"
#include "train/buckets.hpp"

#include <vector>

namespace gpt {

/// What this rank updates of every bucket, and whose gradients it adds to the norm.
struct OwnedParts {
  bool sharded = false;                     ///< ZeRO-1: the rank updates parts of the buckets only
  std::vector<std::vector<Range>> updated;  ///< of each bucket, ranges of the flat buffers, ascending
  std::vector<Range> counted;               ///< ranges whose squares this rank sums; each has one such rank

  /// All that this rank updates, ascending, neighbours joined.
  std::vector<Range> all_updated() const;
};

/// Every rank updates and counts everything.
OwnedParts all_parts(const Buckets& buckets);

/// ZeRO-1: what `comm` says that this rank owns, and the tails. Where several ranks own the same (a replica
/// on every node) the first one counts it; rank 0 counts the tails.
OwnedParts owned_parts(const Buckets& buckets, const Comm& comm);

}  // namespace gpt
