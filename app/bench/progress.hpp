#pragma once

#include "comm/world.hpp"
#include "terminal_progress.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpt {

/// How far a measurement is, said by the root on stderr: a bar if that is a terminal, else a line now and
/// then.
class Progress {
public:
  /// @param total  parts, which take about as long as each other
  Progress(const World& world, std::string_view command, int64_t total);

  /// One more part is done. @param what  it was: "round 1, 2 ranks"
  void operator()(const std::string& what);

private:
  using Clock = std::chrono::steady_clock;

  bool speaks_;
  std::string command_;
  int64_t total_;
  int64_t done_ = 0;
  Clock::time_point last_ = Clock::now();
  TerminalProgress bar_;
};

}  // namespace gpt
