#pragma once

#include "base/integers.hpp"
#include "model/layout.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// Figures of some numbers; sums in double precision.
class Statistics {
public:
  void add(std::span<const float> values);

  int64_t count() const { return finite_ + not_finite_; }
  int64_t not_finite() const { return not_finite_; }
  /// Of those that are finite; 0 where there are none.
  double least() const { return least_; }
  double greatest() const { return greatest_; }
  double mean() const { return finite_ > 0 ? sum_ / static_cast<double>(finite_) : 0.0; }
  double root_mean_square() const;

private:
  int64_t finite_ = 0;
  int64_t not_finite_ = 0;
  double least_ = 0.0;
  double greatest_ = 0.0;
  double sum_ = 0.0;
  double squares_ = 0.0;
};

/// Figures of every parameter of a layout, from pieces of the flat tensor in any order. Padding counts
/// nowhere.
class ParameterStatistics {
public:
  explicit ParameterStatistics(const Layout& layout);

  /// @param values  elements [elements) of the flat tensor
  void add(Range elements, std::span<const float> values);

  /// In the order of Layout::all().
  const std::vector<Statistics>& each() const { return each_; }
  const Statistics& all() const { return all_; }

private:
  std::vector<Range> ranges_;
  std::vector<Statistics> each_;
  Statistics all_;
};

}  // namespace gpt
