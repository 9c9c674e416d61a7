#include "background.hpp"

#include "call.hpp"
#include "settings.hpp"
#include "stream.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace standin {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(50);
constexpr auto kAlonePeriod = std::chrono::milliseconds(2);
/// Long enough that a program which forgot to wait reads what was there before.
constexpr std::chrono::duration<double> kQuiet(0.2);

std::atomic<Clock::rep> kernel_start = 0;  // 0: none runs
std::atomic<bool> goes_on_alone = false;

void end_endless_kernel() {
  const Clock::rep start = kernel_start;
  if (start == 0) return;
  const std::chrono::duration<double> elapsed = Clock::now().time_since_epoch() - Clock::duration(start);
  if (elapsed.count() < settings().timeout) return;
  std::fprintf(stderr,
               "CUDA stand-in: a kernel has run for %g s: it waits for another block, or never ends\n",
               elapsed.count());
  std::abort();
}

void go_on() {
  if (!goes_on_alone || Call::quiet_time() < kQuiet) return;
  Call call(std::try_to_lock);
  if (!call.held()) return;
  while (Call::quiet_time() >= kQuiet && advance_all(call)) {
  }
}

void watch() {
  for (;;) {
    std::this_thread::sleep_for(goes_on_alone ? kAlonePeriod : kPeriod);
    end_endless_kernel();
    go_on();
  }
}

}  // namespace

void work_in_background(bool others_wait) {
  static const bool started = (std::thread(watch).detach(), true);
  (void)started;
  if (others_wait) goes_on_alone = true;
}

KernelTime::KernelTime() { kernel_start = Clock::now().time_since_epoch().count(); }
KernelTime::~KernelTime() { kernel_start = 0; }

}  // namespace standin
