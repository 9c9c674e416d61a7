#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <utility>

namespace gpt {

/// Work that waits now and then for something that is polled, written as a coroutine:
///
///     Task exchange(…) {
///       MPI_Request request = …;
///       co_await until([&] { return is_done(request); });
///       …
///     }
///
/// Starts when it is first advanced. One Task may wait for the end of another with co_await, which throws
/// what the other one threw.
class Task {
public:
  struct promise_type {
    std::function<bool()> condition;            // to go on; empty: at once
    std::coroutine_handle<promise_type> inner;  // the task whose end it waits for
    std::exception_ptr failure;

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { failure = std::current_exception(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool is_done() const { return handle_.done(); }

  /// Goes on if what it waits for has come. Whether it did. @throws what the coroutine threw
  bool advance() {
    const bool moved = advance(handle_);
    rethrow_failure();
    return moved;
  }

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<promise_type> outer) const { outer.promise().inner = handle_; }
  void await_resume() const { rethrow_failure(); }

private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  void rethrow_failure() const {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
  }

  static bool advance(std::coroutine_handle<promise_type> handle) {
    promise_type& promise = handle.promise();
    if (promise.inner) {
      if (!advance(promise.inner)) return false;
      if (!promise.inner.done()) return true;
      promise.inner = nullptr;
    } else if (promise.condition && !promise.condition()) {
      return false;
    }
    promise.condition = nullptr;
    handle.resume();
    return true;
  }

  std::coroutine_handle<promise_type> handle_;
};

/// Suspends a Task until `condition`, which is polled, holds.
class until {
public:
  explicit until(std::function<bool()> condition) : condition_(std::move(condition)) {}

  bool await_ready() const { return condition_(); }
  void await_suspend(std::coroutine_handle<Task::promise_type> handle) {
    handle.promise().condition = std::move(condition_);
  }
  void await_resume() const {}

private:
  std::function<bool()> condition_;
};

}  // namespace gpt
