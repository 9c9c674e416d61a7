#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace gpt {

/// When a run has to be over.
class TimeLimit {
public:
  /// @param seconds  after this process began; 0: by the end of the Slurm job that it belongs to, if Slurm
  ///                 has said when that is (SLURM_JOB_END_TIME, seconds since 1970), else never
  explicit TimeLimit(double seconds);

  /// Whether it is time to stop when that needs so many seconds: `until` it is agreed, then for `saving`,
  /// half as long again for safety.
  bool reached(double until, double saving) const;

  /// Why a run stops, for people.
  const std::string& reason() const { return reason_; }

private:
  std::optional<std::chrono::system_clock::time_point> end_;
  std::string reason_;
};

}  // namespace gpt
