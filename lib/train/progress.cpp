#include "train/progress.hpp"

#include <fmt/format.h>
#include <string>

namespace gpt {
namespace {

constexpr auto redraw_interval = std::chrono::milliseconds(100);

std::string to_duration(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string figures(const StepRecord& record) {
  return fmt::format("loss {:.4f}  lr {:.2e}  norm {:.3f}  {:.1f} ms  {:.0f} tokens/s", record.loss,
                     record.learning_rate, record.grad_norm, record.seconds * 1e3, record.tokens_per_second);
}

std::string bar(double share) {
  constexpr int width = 24;
  const int done = static_cast<int>(share * width);
  return fmt::format("[{0:#<{1}}{0:.<{2}}]", "", done, width - done);
}

}  // namespace

Progress::Progress(Console& console, int64_t first_step, int64_t steps, int64_t log_every)
    : console_(console), first_step_(first_step), steps_(steps), log_every_(log_every) {}

void Progress::step(const StepRecord& record) {
  if (log_every_ == 0) return;
  const bool last = record.step == steps_;
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const std::string left = to_duration(elapsed / static_cast<double>(record.step - first_step_) *
                                       static_cast<double>(steps_ - record.step));
  if (!console_.has_terminal()) {
    if (record.step % log_every_ == 0 || record.step == first_step_ + 1 || last)
      console_.say(fmt::format("step {}/{}  {}  {} left", record.step, steps_, figures(record), left));
    return;
  }
  if (now - last_moved_ < redraw_interval && !last) return;
  last_moved_ = now;
  // What matters most comes first: a narrow terminal cuts the line.
  console_.move(fmt::format("{} step {}/{}  {} left  {}",
                            bar(static_cast<double>(record.step) / static_cast<double>(steps_)), record.step,
                            steps_, left, figures(record)));
}

}  // namespace gpt
