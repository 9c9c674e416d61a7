#include "train/bad_steps.hpp"

#include "comm/hang.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace gpt {

BadSteps::BadSteps(const World& world, Console& console, const TrainOptions& options, int64_t tokens)
    : world_(world),
      console_(console),
      options_(options),
      tokens_(static_cast<double>(tokens)),
      action_(on_bad_step_named(options.on_bad_step)),
      spikes_(options.spike_z) {}

StepLimits BadSteps::limits(int64_t step) {
  const SpikeDetector::Limits found = spikes_.limits(step);
  given_[static_cast<size_t>(step % 2)] = found;
  return {.loss_sum = found.loss * tokens_, .grad_norm = found.grad_norm};
}

void BadSteps::accept(int64_t step, double loss, double grad_norm) {
  skipped_in_row_ = 0;
  spikes_.add(step, loss, grad_norm);
}

BadStep BadSteps::describe(const StepScalars::Values& values, Range windows) const {
  const double loss = values.loss_sum / tokens_;
  const SpikeDetector::Limits& limit = given_[static_cast<size_t>(values.step % 2)];
  const bool finite = std::isfinite(loss) && std::isfinite(values.grad_norm);
  return {.step = values.step,
          .reason =
              finite
                  ? fmt::format("loss {} (limit {:.4g}) or gradient norm {} (limit {:.4g}) is a spike", loss,
                                limit.loss, values.grad_norm, limit.grad_norm)
                  : fmt::format("loss {} or gradient norm {} is not a finite number", loss, values.grad_norm),
          .action = options_.on_bad_step,
          .loss = loss,
          .grad_norm = values.grad_norm,
          .ranks = {},
          .windows = windows};
}

void BadSteps::judge(const StepScalars::Values& values, Range windows, Journal* journal) {
  BadStep bad = describe(values, windows);
  const double squares = world_.size() > 1 ? values.own_squares : values.grad_norm;
  const bool own_finite = std::isfinite(values.own_loss) && std::isfinite(squares);
  const std::vector<std::string> own = world_.gather(own_finite ? "" : "not finite");
  for (int rank = 0; rank < world_.size(); ++rank)
    if (!own[static_cast<size_t>(rank)].empty()) bad.ranks.push_back(rank);
  if (journal != nullptr) journal->bad_step(bad);

  const bool too_many = action_ == OnBadStep::skip ? ++skipped_in_row_ > options_.max_bad_steps
                                                   : rollbacks_ == options_.max_bad_steps;
  if (action_ == OnBadStep::stop || too_many)
    throw SharedError(
        fmt::format(
            "step {}: {}{}{}; no checkpoint holds that step. Lower --lr or --clip, look at the step's "
            "data (windows {} to {} of each shard's order), or see --on-bad-step",
            bad.step, bad.reason, bad.ranks.empty() ? "" : fmt::format(", from {}", list_ranks(bad.ranks)),
            too_many ? fmt::format(", and so were {} before (--max-bad-steps)", options_.max_bad_steps) : "",
            bad.windows.begin, bad.windows.end - 1),
        ExitCode::bad_numbers);
  console_.say(fmt::format("warning: step {}: {}: {}", bad.step, bad.reason,
                           action_ == OnBadStep::skip
                               ? "it is left out, and the run goes on"
                               : "the run goes back to the last checkpoint, and passes over its data"));
  if (action_ == OnBadStep::rollback && !offence_) offence_ = std::move(bad);
}

BadStep BadSteps::begin_rollback() {
  ++rollbacks_;
  return *std::exchange(offence_, std::nullopt);
}

}  // namespace gpt
