#include "device/cpu/time_slice.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

namespace {

/// The runtime of sched_getattr(2), which is the fourth 64-bit word.
uint64_t slice_of_this_thread() {
  std::array<uint64_t, 6> attributes{};
  CHECK(syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0U) == 0);
  return attributes[3];
}

bool kernel_knows_slices() {
  utsname name{};
  int major = 0, minor = 0;
  return uname(&name) == 0 && std::sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12));
}

}  // namespace

TEST_CASE("time slice: of the thread that asks, and nothing else of it") {
  const uint64_t before = slice_of_this_thread();
  uint64_t after = 0;
  int policy = -1, nice = -1;
  std::thread([&] {
    setpriority(PRIO_PROCESS, 0, 3);
    gpt::ask_for_slices(std::chrono::microseconds(150));
    after = slice_of_this_thread();
    policy = sched_getscheduler(0);
    nice = getpriority(PRIO_PROCESS, 0);
  }).join();
  if (kernel_knows_slices()) CHECK(after == 150'000);
  CHECK(policy == SCHED_OTHER);
  CHECK(nice == 3);
  CHECK(slice_of_this_thread() == before);
}
