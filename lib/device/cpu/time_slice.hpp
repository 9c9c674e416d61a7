#pragma once

#include <chrono>

namespace gpt {

/// Asks the scheduler to give this thread the core in slices of `length`, at least 100 µs. A thread that
/// works little and often is then let in soon after it wakes up, before threads with longer slices, for the
/// same share of the core. Linux 6.12 and later; elsewhere, and where it is not allowed, nothing happens.
void ask_for_slices(std::chrono::nanoseconds length);

}  // namespace gpt
