#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace gpt {

/// Seconds that one thing took, again and again.
class Times {
public:
  std::vector<double> all;

  void add(double seconds) { all.push_back(seconds); }
  void add(const std::vector<double>& round) { all.insert(all.end(), round.begin(), round.end()); }
  double least() const { return *std::ranges::min_element(all); }
  double median() const { return median_of(all); }
  /// Median distance from the median.
  double deviation() const {
    std::vector<double> distances;
    for (const double seconds : all) distances.push_back(std::abs(seconds - median()));
    return median_of(distances);
  }

private:
  static double median_of(std::vector<double> values) {
    std::ranges::sort(values);
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  }
};

}  // namespace gpt
