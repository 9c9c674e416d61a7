// For LD_PRELOAD: the time of day is WRONG_CLOCK_SECONDS off; clocks that only measure spans are right.
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t which, struct timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, which, time);
  const char* const seconds = std::getenv("WRONG_CLOCK_SECONDS");
  if (result == 0 && which == CLOCK_REALTIME && seconds != nullptr) time->tv_sec += std::atol(seconds);
  return static_cast<int>(result);
}
