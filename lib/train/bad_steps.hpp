#pragma once

#include "comm/world.hpp"
#include "train/console.hpp"
#include "train/guard.hpp"
#include "train/journal.hpp"
#include "train/options.hpp"
#include "train/step_scalars.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace gpt {

/// Says which steps the optimizer must not take, and what follows from one that it did not (`--on-bad-step`).
/// All ranks come to the same: they have the same sums.
class BadSteps {
public:
  /// Keeps references to the first three. @param tokens  of a step's global batch
  BadSteps(const World& world, Console& console, const TrainOptions& options, int64_t tokens);

  /// Above that the loss or the gradient norm of `step` (from 1) is a spike. Once for each step, in order.
  StepLimits limits(int64_t step);

  /// The optimizer took a step. @param loss  per token
  void accept(int64_t step, double loss, double grad_norm);

  /// It did not take that one: logs it, and says what follows. Collective.
  /// @param windows  of each lane, that the step computed
  /// @param journal  root only; null: nothing is logged
  /// @throws SharedError(bad_numbers) where that is the end of the run
  void judge(const StepScalars::Values& values, Range windows, Journal* journal);

  /// The run has to go back to a checkpoint before it goes on.
  bool wants_rollback() const { return offence_.has_value(); }
  /// For that step; the run goes back now.
  BadStep begin_rollback();

  /// What the spike detector remembers (SpikeDetector::state).
  std::string state() const { return spikes_.state(); }
  void restore(const std::string& state) { spikes_.restore(state); }

private:
  BadStep describe(const StepScalars::Values& values, Range windows) const;

  const World& world_;
  Console& console_;
  const TrainOptions& options_;
  const double tokens_;
  const OnBadStep action_;
  SpikeDetector spikes_;
  std::array<SpikeDetector::Limits, 2> given_{};  // to the last two steps
  std::optional<BadStep> offence_;                // for which the run has to go back
  int64_t skipped_in_row_ = 0, rollbacks_ = 0;
};

}  // namespace gpt
