#pragma once

#include "device/timed_event.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

namespace gpt {

/// Counts records given and records reached, so that a caller or another queue's thread can wait for the
/// last.
class CpuEvent final : public TimedEvent {
public:
  void synchronize() override { wait_for(given()); }
  bool reached() const override;
  double seconds_since(const TimedEvent& earlier) const override;

  /// A record was given; returns its number. `waiters` counts who waits for it.
  int64_t give(std::shared_ptr<std::atomic<int>> waiters = nullptr);
  /// The record of this number was reached, or will never be: the work before it failed.
  void reach(int64_t record, std::exception_ptr failure = nullptr);
  int64_t given() const;
  /// Waits until the record of this number is reached. @throws what the work before it threw
  void wait_for(int64_t record);
  bool has_reached(int64_t record) const;

private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point reached_at() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t given_ = 0, reached_ = 0;
  Clock::time_point reached_at_{};
  std::exception_ptr failure_;
  std::shared_ptr<std::atomic<int>> waiters_;
};

/// Copies and fills of a queue of host memory, by `threads` threads.
class HostQueue : public Queue {
public:
  explicit HostQueue(int threads) : threads_(threads) {}

protected:
  void copy_now(Tensor dst, Tensor src) const;
  void zero_now(Tensor dst) const;

private:
  int threads_;
};

/// Every task is done when the call that gives it returns.
class CpuQueue : public HostQueue {
public:
  using HostQueue::HostQueue;

  void copy(Tensor dst, Tensor src) override { copy_now(dst, src); }
  void zero(Tensor dst) override { zero_now(dst); }
  void host(std::function<void()> task) override { task(); }
  void record(Event& event) override;
  void wait(Event& event) override { event.synchronize(); }
  void synchronize() override {}
  void pause(int64_t idle, std::chrono::nanoseconds time) override;
};

/// A queue with a thread of its own, which takes no core while it has nothing to do. After a task has failed
/// the others are dropped, and every wait throws what it threw.
std::unique_ptr<Queue> make_worker_queue();

/// One moment of a poll that somebody waits for: looks again at once for a while, then sleeps for a small
/// part of the `time` that would do if nobody waited.
void pause_awaited(int64_t idle, std::chrono::nanoseconds time);

}  // namespace gpt
