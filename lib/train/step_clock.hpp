#pragma once

#include "base/stopwatch.hpp"
#include "comm/watchdog.hpp"

#include <atomic>

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
public:
  explicit StepClock(Watchdog& watchdog) : watchdog_(watchdog) {}

  void begin() {
    step_ = {};
    waited_ = 0.0;
    waited_for_data_ = 0.0;
    reduced_before_ = reduced_;
  }

  /// The step since begin().
  StepTimes times() const {
    return {.compute = step_.seconds() - waited_,
            .wait = waited_,
            .reduce = reduced_ - reduced_before_,
            .data = waited_for_data_};
  }

  /// While it lives, the host waits for communication.
  class Wait {
  public:
    explicit Wait(StepClock& clock) : clock_(clock), waiting_(clock.watchdog_) {}
    ~Wait() { clock_.waited_ += watch_.seconds(); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

  private:
    StepClock& clock_;
    const Watchdog::Waiting waiting_;
    const Stopwatch watch_;
  };

  /// While it lives, the host waits for its batch.
  class DataWait {
  public:
    explicit DataWait(StepClock& clock) : clock_(clock) {}
    ~DataWait() { clock_.waited_for_data_ += watch_.seconds(); }
    DataWait(const DataWait&) = delete;
    DataWait& operator=(const DataWait&) = delete;

  private:
    StepClock& clock_;
    const Stopwatch watch_;
  };

  // From the thread of a communication queue, around an operation.
  void begin_operation() { operation_ = {}; }
  void end_operation() { reduced_ = reduced_ + operation_.seconds(); }

private:
  Watchdog& watchdog_;
  Stopwatch step_;
  double waited_ = 0.0;
  double waited_for_data_ = 0.0;
  double reduced_before_ = 0.0;       // the step
  Stopwatch operation_;               // the queue's alone
  std::atomic<double> reduced_{0.0};  // so far; only the queue writes, while the host waits or computes
};

}  // namespace gpt
