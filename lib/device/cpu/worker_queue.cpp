#include "base/error.hpp"
#include "base/thread.hpp"
#include "device/cpu/cpu_queue.hpp"
#include "device/cpu/flush_to_zero.hpp"
#include "device/cpu/time_slice.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <sys/prctl.h>
#include <thread>
#include <utility>

namespace gpt {
namespace {

class WorkerQueue final : public HostQueue {
public:
  WorkerQueue()
      : HostQueue(1),
        thread_(start_thread("communication", [this](const std::stop_token& stop) { work(stop); })) {}

  ~WorkerQueue() override {
    // A task may be waiting for ranks that will never answer, because this one is about to end them.
    given_up_ = std::uncaught_exceptions() > 0;
  }

  void copy(Tensor dst, Tensor src) override {
    host([this, dst, src] { copy_now(dst, src); });
  }
  void zero(Tensor dst) override {
    host([this, dst] { zero_now(dst); });
  }
  void host(std::function<void()> task) override { give({.run = std::move(task), .end = {}}); }

  void record(Event& event) override {
    auto& mark = static_cast<CpuEvent&>(event);
    const int64_t number = mark.give(waiters_);
    give({.run = {},
          .end = [&mark, number](const std::exception_ptr& failure) { mark.reach(number, failure); }});
  }

  void wait(Event& event) override {
    auto& mark = static_cast<CpuEvent&>(event);
    const int64_t number = mark.given();
    if (!mark.has_reached(number)) host([&mark, number] { mark.wait_for(number); });
  }

  void synchronize() override {
    CpuEvent end;
    record(end);
    end.synchronize();
  }

  void pause(int64_t idle, std::chrono::nanoseconds time) override {
    validate(!given_up_, ExitCode::failed, "communication was given up, because this rank failed");
    if (*waiters_ > 0)
      pause_awaited(idle, time);
    else
      std::this_thread::sleep_for(time);
  }

private:
  struct Task {
    std::function<void()> run;
    std::function<void(const std::exception_ptr&)> end;  // of a record: called even after a failure
  };

  void give(Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  void work(const std::stop_token& stop) {
    flush_denormals_to_zero();
    prctl(PR_SET_NAME, "communication");
    prctl(PR_SET_TIMERSLACK, 1000UL);  // ns: the default of 50 µs would be most of a pause
    // Else a thread that computes keeps the core to the end of its own slice, milliseconds later, and the
    // line is idle.
    ask_for_slices(std::chrono::microseconds(100));
    std::exception_ptr failure;
    while (true) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [this] { return !tasks_.empty(); })) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      try {
        if (task.run && !failure) task.run();
      } catch (...) {
        failure = std::current_exception();
      }
      if (task.end) task.end(failure);
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> tasks_;
  std::shared_ptr<std::atomic<int>> waiters_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> given_up_ = false;
  std::jthread thread_;  // last: it uses the others, and ends before they do
};

}  // namespace

std::unique_ptr<Queue> make_worker_queue() { return std::make_unique<WorkerQueue>(); }

}  // namespace gpt
