#include "terminal_progress.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

namespace gpt {
namespace {

constexpr auto interval = std::chrono::milliseconds(100);
constexpr int64_t bar_width = 30;

}  // namespace

TerminalProgress::TerminalProgress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

void TerminalProgress::operator()(std::string_view phase, int64_t done, int64_t total) {
  if (!terminal_ || total <= 0) return;
  const auto now = Clock::now();
  if (phase != phase_) {
    phase_ = phase;
    phase_start_ = now;
  } else if (now - last_ < interval) {
    return;
  }
  last_ = now;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const double seconds = std::chrono::duration<double>(now - phase_start_).count();
  const auto filled = static_cast<int64_t>(share * bar_width);
  std::string line = fmt::format("\r\x1b[K{:<16} [{:#<{}}{:<{}}] {:3.0f}%", phase, "", filled, "",
                                 bar_width - filled, 100 * share);
  if (share > 0.01 && seconds > 1) line += fmt::format("  {:.0f} s left", seconds * (1 - share) / share);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void TerminalProgress::erase() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace gpt
