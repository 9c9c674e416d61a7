#pragma once

#include <algorithm>
#include <vector>

namespace gpt {

/// Seconds that one thing took, again and again.
struct Times {
  std::vector<double> all;

  void add(double seconds) { all.push_back(seconds); }
  void add(const std::vector<double>& round) { all.insert(all.end(), round.begin(), round.end()); }
  double least() const { return *std::ranges::min_element(all); }
  double median() const {
    std::vector<double> sorted = all;
    std::ranges::sort(sorted);
    const size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
};

}  // namespace gpt
