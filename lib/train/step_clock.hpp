#pragma once

#include "base/stopwatch.hpp"
#include "comm/watchdog.hpp"
#include "device/device.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace gpt {

/// Where a rank's time of a step goes, in seconds.
struct StepTimes {
  double compute = 0.0;  ///< all but the wait: reading, forward, backward, update
  double wait = 0.0;     ///< the compute queue waits for communication
  double reduce = 0.0;   ///< communication is under way, beside the compute or not, waits for other ranks in
                         ///< it; an operation counts in the step that starts it, or in the next one where
                         ///< it ends later
  double data = 0.0;     ///< the host waits for its batch: part of compute, unless a device that works behind
                         ///< the host's back is still busy

  StepTimes& operator+=(const StepTimes& other) {
    compute += other.compute;
    wait += other.wait;
    reduce += other.reduce;
    data += other.data;
    return *this;
  }
};

/// Measures StepTimes where the work is done: by events on the queues, which a GPU passes long after the host
/// has given it the step. The host waits in wait_for() only, for the step before:
///
///     begin(n, compute); … end(compute);
///     begin(n + 1, compute); … wait_for(n); times(n); … end(compute);
///
/// It also tells the watchdog when this rank waits for others, be it the host or the device; waiting for its
/// own disk, or for what its own device computes, is a rank's own fault, and counts as standing still.
class StepClock {
public:
  /// Keeps references to both.
  StepClock(Device& device, Watchdog& watchdog);

  /// What `compute` is given from now on belongs to the step.
  void begin(int64_t step, Queue& compute);
  /// The step is given. What comes before the next one is not measured.
  void end(Queue& compute);

  /// Work given to `compute` from now on waits for `event`, of communication.
  void wait(Queue& compute, Event& event);

  // Around an operation given to the queue of communication.
  void begin_operation(Queue& communication);
  void end_operation(Queue& communication);

  /// While it lives, the host waits for its batch.
  class DataWait {
  public:
    explicit DataWait(StepClock& clock) : clock_(clock) {}
    ~DataWait() { clock_.now_->data += watch_.seconds(); }
    DataWait(const DataWait&) = delete;
    DataWait& operator=(const DataWait&) = delete;

  private:
    StepClock& clock_;
    const Stopwatch watch_;
  };

  /// Of the step that is being given, so far.
  double data_seconds() const { return now_->data; }

  /// The host waits until the step, which has been given, is done: the last one or the one before. Meanwhile
  /// the watchdog knows whether the device stands in a wait. @throws what the queue's work threw
  void wait_for(int64_t step);

  /// Whether the compute queue has come to a wait of that step and not got beyond it.
  bool stands_in_wait(int64_t step);

  /// Of a step that was waited for; once.
  StepTimes times(int64_t step);

private:
  /// Marks around work of a queue.
  struct Span {
    std::unique_ptr<TimedEvent> begin, end;

    double seconds() const { return end->seconds_since(*begin); }
  };
  struct Step {
    int64_t number = 0;
    Span whole;
    std::vector<Span> waits;  // the first `given` are this step's, in the queue's order; the rest is spare
    size_t given = 0, passed = 0;
    double data = 0.0;
  };
  struct Operation {
    int64_t step = 0;
    Span span;
  };

  Span make_span() const;
  Step& at(int64_t step);

  Device& device_;
  Watchdog& watchdog_;
  std::array<Step, 2> steps_;         // the last two
  Step* now_ = nullptr;               // of them the one that is being given; null between steps
  std::deque<Operation> operations_;  // not counted yet, in their queue's order
  std::vector<Span> spare_;           // of operations
};

}  // namespace gpt
