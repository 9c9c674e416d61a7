#pragma once

#include "comm/watchdog.hpp"

#include <atomic>
#include <chrono>

namespace gpt {

/// Where a rank's time of a step goes, in seconds.
struct StepTimes {
  double compute = 0.0;  ///< all but the wait: reading, forward, backward, update
  double wait = 0.0;     ///< the host waits for communication
  double reduce = 0.0;   ///< communication is under way, beside the compute or not, waits for other ranks in
                         ///< it; an operation counts in the step in which it ends
  double data = 0.0;     ///< of compute: the host waits for its batch

  StepTimes& operator+=(const StepTimes& other) {
    compute += other.compute;
    wait += other.wait;
    reduce += other.reduce;
    data += other.data;
    return *this;
  }
};

/// Measures StepTimes, and tells the watchdog when the host waits for other ranks; waiting for its own disk
/// is a rank's own fault, and counts as standing still.
class StepClock {
  using Clock = std::chrono::steady_clock;

public:
  explicit StepClock(Watchdog& watchdog) : watchdog_(watchdog) {}

  void begin() {
    begun_ = Clock::now();
    waited_ = 0.0;
    waited_for_data_ = 0.0;
    reduced_before_ = reduced_;
  }

  /// The step since begin().
  StepTimes times() const {
    return {.compute = seconds_since(begun_) - waited_,
            .wait = waited_,
            .reduce = reduced_ - reduced_before_,
            .data = waited_for_data_};
  }

  /// While it lives, the host waits for communication.
  class Wait {
  public:
    explicit Wait(StepClock& clock) : clock_(clock), waiting_(clock.watchdog_) {}
    ~Wait() { clock_.waited_ += seconds_since(begun_); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

  private:
    StepClock& clock_;
    const Watchdog::Waiting waiting_;
    const Clock::time_point begun_ = Clock::now();
  };

  /// While it lives, the host waits for its batch.
  class DataWait {
  public:
    explicit DataWait(StepClock& clock) : clock_(clock) {}
    ~DataWait() { clock_.waited_for_data_ += seconds_since(begun_); }
    DataWait(const DataWait&) = delete;
    DataWait& operator=(const DataWait&) = delete;

  private:
    StepClock& clock_;
    const Clock::time_point begun_ = Clock::now();
  };

  // From the thread of a communication queue, around an operation.
  void begin_operation() { operation_ = Clock::now(); }
  void end_operation() { reduced_ = reduced_ + seconds_since(operation_); }

private:
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Watchdog& watchdog_;
  Clock::time_point begun_ = Clock::now();
  double waited_ = 0.0;
  double waited_for_data_ = 0.0;
  double reduced_before_ = 0.0;       // the step
  Clock::time_point operation_;       // the queue's alone
  std::atomic<double> reduced_{0.0};  // so far; only the queue writes, while the host waits or computes
};

}  // namespace gpt
