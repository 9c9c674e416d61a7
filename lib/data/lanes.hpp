#pragma once

#include "base/integers.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// One training window: `index` counts windows of its lane (shard) in storage order.
struct WindowId {
  int64_t lane = 0;
  int64_t index = 0;
  int64_t epoch = 0;
  bool operator==(const WindowId&) const = default;
};

/// `skipped` and [range) of it, in the order of places: ascending, apart from each other.
std::vector<Range> with_range(const std::vector<Range>& skipped, Range range);

/// Which window every sequence of every batch is: a pure function of the seed and the cursor (windows
/// consumed per lane), the same on any number of ranks. In each epoch each lane passes through its windows in
/// another pseudo-random order, each once; the order takes no memory (a keyed bijection with cycle walking:
/// Black & Rogaway 2002, "Ciphers with arbitrary finite domains").
class Lanes {
public:
  /// @param skipped  windows of each lane that are passed over, as ranges of its order from the start of
  ///                 training on: ascending, apart from each other. The cursor does not count them
  /// @throws Error(usage) unless lanes >= 1 and windows_per_lane >= 1
  Lanes(int64_t lanes, int64_t windows_per_lane, uint64_t seed, std::vector<Range> skipped = {});

  int64_t lanes() const { return lanes_; }
  int64_t windows_per_lane() const { return windows_per_lane_; }
  int64_t windows_per_epoch() const { return lanes_ * windows_per_lane_; }

  /// The window that `lane` gives as its `cursor`-th since the start of training.
  WindowId window(int64_t lane, int64_t cursor) const;

  /// Where a cursor is in the lane's order, windows that are passed over counted.
  int64_t place_of(int64_t cursor) const;

  /// The window of sequence `sequence` of a batch of `batch` (a multiple of lanes()) that starts at `cursor`:
  /// each lane gives batch/lanes() consecutive sequences.
  WindowId sequence(int64_t sequence, int64_t batch, int64_t cursor) const;

private:
  int64_t lanes_;
  int64_t windows_per_lane_;
  uint64_t seed_;
  std::vector<Range> skipped_;
};

}  // namespace gpt
