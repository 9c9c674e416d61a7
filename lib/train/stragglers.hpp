#pragma once

#include "train/rank_times.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Finds ranks that compute clearly longer than the others, who then wait for them at every step.
class Stragglers {
public:
  static constexpr double clearly = 1.25;  ///< times the median
  static constexpr int64_t intervals = 3;  ///< one after the other, until a rank is reported

  /// @param hosts      of every rank
  /// @param sequences  that each rank computes a step: ranks with one more are no stragglers
  Stragglers(std::vector<std::string> hosts, std::vector<int64_t> sequences);

  /// Ranks from the slowest on, by computing time a sequence.
  std::vector<int> slowest(const IntervalTimes& times, size_t count) const;

  /// A line for each rank that has now been slow for `intervals` intervals; again only after it was not.
  std::vector<std::string> add(const IntervalTimes& times);

  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }

private:
  double a_sequence(const IntervalTimes& times, size_t rank) const;
  double median(const IntervalTimes& times) const;

  std::vector<std::string> hosts_;
  std::vector<int64_t> sequences_;
  std::vector<int64_t> slow_;  // intervals in a row, of each rank
};

}  // namespace gpt
