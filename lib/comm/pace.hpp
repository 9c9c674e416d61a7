#pragma once

#include <chrono>
#include <cstdint>

namespace gpt {

/// How long to leave tasks alone between two looks at them: a sixteenth of the time for which, of late, a
/// task waited until it could go on. Then none waits much longer than without pauses, and on a slow line,
/// where few messages arrive in a millisecond, looking costs little.
class Pace {
public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration shortest = std::chrono::microseconds(50), longest = std::chrono::milliseconds(2);

  /// In `time` `under_way` tasks were waiting, of which `moved` went on at its end.
  void note(Duration time, int64_t moved, int64_t under_way);

  Duration pause() const;

private:
  static constexpr int64_t looks_in_a_wait = 16, memory = 64;  // moves

  int64_t moves_ = memory / 2;
  Duration waited_ = memory / 2 * looks_in_a_wait * shortest;  // of all tasks together, for these moves
};

}  // namespace gpt
