#pragma once

#include <cstdint>
#include <string_view>

namespace gpt {

/// Fault injection for tests and for users who try their own cluster.
///
/// `GPT_FAULT` holds one or more faults separated by ';':
///     POINT:ACTION[@condition,condition…]      e.g.  save.write:kill@rank=1,step=20
/// ACTION is kill | stop | exit | throw | delay=MILLISECONDS | jitter=MILLISECONDS. Conditions are rank=N,
/// step=N and hit=N (the N-th time the point is passed, from 1; default: every time). Unset, a point costs
/// one test of a constant. docs/fault-injection.md lists the points.

/// Reads the variable; called once, when the rank is known. @throws Error(usage) on a malformed value
void configure_faults(int rank);

/// The step that `step=` conditions refer to.
void set_fault_step(int64_t step);

extern bool faults_armed;
void pass_fault_point(std::string_view name);

/// A named point. @throws Error when the action is `throw`
inline void fault_point(std::string_view name) {
  if (faults_armed) [[unlikely]]
    pass_fault_point(name);
}

}  // namespace gpt
