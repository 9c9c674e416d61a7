#pragma once

#include "train/journal.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace gpt {

/// What a person sees of a run. On a terminal one line that moves, with a bar and the time left; elsewhere a
/// line every `log_every` steps. Silent on every rank but the root.
class Progress {
public:
  Progress(bool speaks, int64_t first_step, int64_t steps, int64_t log_every);

  void step(const StepRecord& record);
  /// A line that stays.
  void say(const std::string& line);

private:
  void clear_bar();

  bool speaks_;
  bool terminal_;
  bool bar_shown_ = false;
  int64_t first_step_;
  int64_t steps_;
  int64_t log_every_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_drawn_{};
};

}  // namespace gpt
