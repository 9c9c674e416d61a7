#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpt {

/// A line with a progress bar and the time left, on stderr if that is a terminal; nothing otherwise.
class TerminalProgress {
public:
  TerminalProgress();
  ~TerminalProgress() { erase(); }
  TerminalProgress(const TerminalProgress&) = delete;

  bool is_terminal() const { return terminal_; }

  void operator()(std::string_view phase, int64_t done, int64_t total);

  /// Takes the line away, before something else is printed.
  void erase();

private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  bool shown_ = false;
  std::string phase_;
  Clock::time_point phase_start_{};
  Clock::time_point last_{};
};

}  // namespace gpt
