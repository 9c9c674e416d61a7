#pragma once

#include "train/options.hpp"

#include <cstdint>

namespace gpt {

/// The learning rate of every step: a pure function of the step.
///
/// The first `warmup` steps rise linearly, step s having peak·(s+1)/(warmup+1). After them, with progress p
/// from 0 at the end of the warm-up to 1 after the last step:
///   constant  peak
///   cosine    min + (peak − min)·(1 + cos πp)/2     (Loshchilov & Hutter 2017, eq. 5)
///   linear    peak + (min − peak)·p
///   wsd       peak until the last fifth of all steps, then linearly to min (Hu et al. 2024, eq. 1)
class Schedule {
public:
  Schedule(const TrainOptions& options, int64_t steps);

  /// @param step  from 0
  double learning_rate(int64_t step) const;

  double peak() const { return peak_; }

private:
  enum class Shape { constant, cosine, linear, wsd };
  Shape shape_;
  double peak_;
  double least_;
  int64_t warmup_;
  int64_t steps_;
};

}  // namespace gpt
