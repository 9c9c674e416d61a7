#pragma once

#include "base/file_fault.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// Fault injection for tests and for users who try their own cluster.
///
/// `GPT_FAULT` holds one or more faults separated by ';':
///     POINT:ACTION[@condition,condition…]      e.g.  save.write:kill@rank=1,step=20
/// ACTION is kill | stop | exit | throw | delay=MILLISECONDS | jitter=MILLISECONDS, and at some points nan |
/// flip | short | full | ioerror. Conditions are rank=N, step=N and hit=N (the N-th time the point is passed,
/// from 1; default: every time). Unset, a point costs one test of a constant. docs/fault-injection.md lists
/// the points.

enum class Program { training, sampling, bench, data };

/// The points that a program passes, whatever it is told to do.
std::vector<std::string_view> fault_points_of(Program program);

/// What can be injected at a point beside what every point takes; nothing where there is no such point.
std::vector<std::string_view> fault_actions_at(std::string_view point);

/// The points at which that can be injected, if it is not every one.
std::vector<std::string_view> fault_points_with(std::string_view action);

/// Reads the variable; called once, when the rank is known.
/// @param program  whose points may be named; nothing: any name is a point
/// @throws Error(usage) on a malformed value, a name that is no point, or an action that its point does not
/// take
void configure_faults(int rank, std::optional<Program> program = {});

/// One of the variable's faults, of whatever rank it is.
struct FaultUse {
  std::string text;
  bool acted = false;  ///< in this process
};
/// Without those at the point `end`, which comes when nobody can tell any more.
std::vector<FaultUse> fault_uses();

/// Says on standard error which faults did nothing: a point that was never passed under their conditions.
void say_idle_faults(const std::vector<FaultUse>& uses);

/// The step that `step=` conditions refer to, on threads that have not said their own.
void set_fault_step(int64_t step);

/// While it lives, `step=` conditions of points that this thread passes refer to this step: it works on a
/// step while others have gone on.
class FaultStep {
public:
  explicit FaultStep(int64_t step);
  ~FaultStep();
  FaultStep(const FaultStep&) = delete;
  FaultStep& operator=(const FaultStep&) = delete;
};

extern bool faults_armed;
void pass_fault_point(std::string_view name);

/// A named point. @throws Error when the action is `throw`
inline void fault_point(std::string_view name) {
  if (faults_armed) [[unlikely]]
    pass_fault_point(name);
}

/// The same where values can be spoiled: true when the action is `nan` or `flip`, for the caller to make one
/// of its values not a number, or to change a bit of it.
bool pass_value_point(std::string_view name);
inline bool value_point(std::string_view name) { return faults_armed && pass_value_point(name); }

/// The same where a file is written, reserved or read: what the caller has to make of that.
FileFault pass_file_point(std::string_view name);
inline FileFault file_point(std::string_view name) {
  if (faults_armed) [[unlikely]]
    return pass_file_point(name);
  return {};
}

}  // namespace gpt
