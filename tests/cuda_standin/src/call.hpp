#pragma once

#include <chrono>
#include <mutex>

namespace standin {

/// A call of the interface: holds the lock of everything, and leaves device memory closed to the host.
class Call {
public:
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Runs something without the lock.
  template <class Run>
  void without_lock(Run run) {
    leave();
    run();
    lock_.lock();
  }

  /// For work that nobody called for: not counted as a call. Holds nothing if the lock is taken.
  explicit Call(std::try_to_lock_t);
  bool held() const { return lock_.owns_lock(); }

  /// How long ago the last call of any thread began.
  static std::chrono::duration<double> quiet_time();

private:
  void leave();

  std::unique_lock<std::mutex> lock_;
};

}  // namespace standin
