#include "comm/pace.hpp"

#include <doctest/doctest.h>

namespace gpt {
namespace {

using std::chrono::microseconds, std::chrono::milliseconds, std::chrono::seconds;

/// Looks at 16 tasks, each of which can go on `wait` after it last did, as often as `pace` says.
int64_t looks_at(Pace& pace, Pace::Duration wait, Pace::Duration time) {
  constexpr int64_t tasks = 16;
  int64_t looks = 0;
  Pace::Duration owed{};
  for (Pace::Duration now{}; now < time; ++looks) {
    const Pace::Duration pause = pace.pause();
    now += pause;
    owed += pause * tasks;
    const int64_t moved = std::min(owed / wait, tasks);
    owed -= moved * wait;
    pace.note(pause, moved, tasks);
  }
  return looks;
}

}  // namespace

TEST_CASE("tasks are looked at about sixteen times while each of them waits") {
  Pace pace;
  looks_at(pace, milliseconds(16), seconds(1));
  CHECK(pace.pause() > microseconds(900));
  CHECK(pace.pause() < microseconds(1100));
  looks_at(pace, microseconds(1600), seconds(1));
  CHECK(pace.pause() > microseconds(90));
  CHECK(pace.pause() < microseconds(110));
}

TEST_CASE("a pause stays within its bounds, and a long silence is soon forgotten") {
  Pace pace;
  looks_at(pace, microseconds(1), seconds(1));
  CHECK(pace.pause() == Pace::shortest);
  for (int look = 0; look < 100; ++look) pace.note(seconds(1), 0, 16);
  CHECK(pace.pause() == Pace::longest);
  CHECK(looks_at(pace, microseconds(1600), milliseconds(40)) > 200);
}

}  // namespace gpt
