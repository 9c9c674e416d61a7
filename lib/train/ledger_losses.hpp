#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Steps that a run took and that do not count, from its log.jsonl.
struct LostSteps {
  int64_t attempt = 0;       ///< that took them
  int64_t steps = 0;         ///< of which there is a line
  double seconds = 0.0;      ///< that they took, evaluations and saves not counted
  bool rolled_back = false;  ///< in that attempt; else a later start went on from before them
};

struct RunLosses {
  std::vector<LostSteps> lost;    ///< in the order of the log
  std::vector<int64_t> left_out;  ///< steps that count, but changed nothing: --on-bad-step skip
  int64_t starts = 0;
  int64_t steps = 0;     ///< that count
  double seconds = 0.0;  ///< that these took
};

/// A log that is not there, or lines that are torn, say nothing.
RunLosses read_losses(const std::string& log);

}  // namespace gpt
