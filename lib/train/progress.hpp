#pragma once

#include "train/console.hpp"
#include "train/journal.hpp"

#include <chrono>
#include <cstdint>

namespace gpt {

/// The steps of a run as a person sees them: on a terminal one line that moves, with a bar and the time left;
/// elsewhere a line every `log_every` steps (0: none).
class Progress {
public:
  Progress(Console& console, int64_t first_step, int64_t steps, int64_t log_every);

  void step(const StepRecord& record);

private:
  Console& console_;
  int64_t first_step_;
  int64_t steps_;
  int64_t log_every_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_moved_{};
};

}  // namespace gpt
