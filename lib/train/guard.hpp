#pragma once

#include "device/ops.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace gpt {

/// What is done about a step whose loss or gradients are not finite, or far beyond those before it. The
/// optimizer never takes such a step.
enum class OnBadStep {
  stop,     ///< the run ends
  skip,     ///< it goes on behind it
  rollback  ///< it goes on from the last good checkpoint, and passes over that step's windows
};

/// @throws Error(usage) naming `--on-bad-step`
OnBadStep on_bad_step_named(std::string_view name);

/// Knows what losses and gradient norms were like lately, and what would be a spike: more than z robust
/// standard deviations above the median of the last good steps. The deviation is 1.4826 times the median of
/// the distances from the median (Iglewicz & Hoaglin 1993, ch. 3), and at least a hundredth of the median, so
/// that figures that hardly move do not make spikes of nothing.
class SpikeDetector {
public:
  static constexpr int64_t window = 64;  ///< good steps that it remembers
  static constexpr int64_t least = 16;   ///< before so many there are no spikes

  /// @param z  0: nothing is a spike
  explicit SpikeDetector(double z) : z_(z) {}

  /// What the next step must not exceed: loss per token, and gradient norm before clipping; infinite where
  /// too little is known. Of steps before the last one: whether that has been heard of depends on when the
  /// host asked, and the limit shall not.
  struct Limits {
    double loss;
    double grad_norm;
  };
  Limits limits(int64_t next_step) const;

  /// A step that was taken.
  void add(int64_t step, double loss, double grad_norm);

  /// What it remembers, as JSON; empty: nothing, as it always is when z is 0.
  std::string state() const;
  /// @param text  of state(), or empty @throws Error(damaged) if it is something else
  void restore(const std::string& text);

private:
  struct Step {
    int64_t step;
    double loss, grad_norm;
  };

  double z_;
  std::deque<Step> last_;  // one more than the window
};

}  // namespace gpt
