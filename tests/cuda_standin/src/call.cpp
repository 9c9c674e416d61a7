#include "call.hpp"

#include "memory.hpp"

#include <atomic>

namespace standin {
namespace {

using Clock = std::chrono::steady_clock;

std::mutex& everything() {
  static std::mutex& mutex = *new std::mutex;  // outlives the threads that still run at exit
  return mutex;
}
std::atomic<Clock::rep> last_call = Clock::now().time_since_epoch().count();

}  // namespace

Call::Call() : lock_(everything()) { last_call = Clock::now().time_since_epoch().count(); }

Call::Call(std::try_to_lock_t) : lock_(everything(), std::try_to_lock) {}

Call::~Call() {
  if (held()) close_device_memory();
}

void Call::leave() {
  close_device_memory();
  lock_.unlock();
}

std::chrono::duration<double> Call::quiet_time() {
  return Clock::now().time_since_epoch() - Clock::duration(last_call.load());
}

}  // namespace standin
