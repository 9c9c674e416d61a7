#include "device/cpu/cpu_queue.hpp"

#include "device/cpu/parallel.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <sched.h>
#include <thread>
#include <utility>

namespace gpt {
namespace {

constexpr int64_t grain = 64 << 10;  // bytes: below it one core is faster than waking the others

}  // namespace

void HostQueue::copy_now(Tensor dst, Tensor src) const {
  expects(dst.dtype() == src.dtype() && dst.size() == src.size());
  auto* to = static_cast<std::byte*>(dst.raw());
  const auto* from = static_cast<const std::byte*>(src.raw());
  parallel_ranges(threads_, dst.bytes(), grain, [&](Range range, int) {
    std::memcpy(to + range.begin, from + range.begin, static_cast<size_t>(range.size()));
  });
}

void HostQueue::zero_now(Tensor dst) const {
  auto* to = static_cast<std::byte*>(dst.raw());
  parallel_ranges(threads_, dst.bytes(), grain, [&](Range range, int) {
    std::memset(to + range.begin, 0, static_cast<size_t>(range.size()));
  });
}

void CpuQueue::record(Event& event) {
  auto& mark = static_cast<CpuEvent&>(event);
  mark.reach(mark.give());
}

void CpuQueue::pause(int64_t idle, std::chrono::nanoseconds time) { pause_awaited(idle, time); }

void pause_awaited(int64_t idle, std::chrono::nanoseconds time) {
  constexpr int64_t patient_rounds = 30;
  constexpr std::chrono::nanoseconds shortest = std::chrono::microseconds(10),
                                     longest = std::chrono::microseconds(100);
  if (idle < patient_rounds)
    sched_yield();
  else
    std::this_thread::sleep_for(std::clamp(time / 8, shortest, longest));
}

int64_t CpuEvent::give(std::shared_ptr<std::atomic<int>> waiters) {
  const std::lock_guard lock(mutex_);
  waiters_ = std::move(waiters);
  return ++given_;
}

void CpuEvent::reach(int64_t record, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  reached_ = record;
  reached_at_ = Clock::now();
  failure_ = std::move(failure);
  changed_.notify_all();  // under the lock: who wakes up may destroy the event
}

int64_t CpuEvent::given() const {
  const std::lock_guard lock(mutex_);
  return given_;
}

void CpuEvent::wait_for(int64_t record) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<std::atomic<int>> waiters = waiters_;
  if (waiters) ++*waiters;
  changed_.wait(lock, [&] { return reached_ >= record; });
  if (waiters) --*waiters;
  if (failure_) std::rethrow_exception(failure_);
}

bool CpuEvent::has_reached(int64_t record) const {
  const std::lock_guard lock(mutex_);
  return reached_ >= record;
}

bool CpuEvent::reached() const {
  const std::lock_guard lock(mutex_);
  if (reached_ < given_) return false;
  if (failure_) std::rethrow_exception(failure_);
  return true;
}

double CpuEvent::seconds_since(const TimedEvent& earlier) const {
  const auto& begin = static_cast<const CpuEvent&>(earlier);
  return std::chrono::duration<double>(reached_at() - begin.reached_at()).count();
}

CpuEvent::Clock::time_point CpuEvent::reached_at() const {
  const std::lock_guard lock(mutex_);
  return reached_at_;
}

}  // namespace gpt
