#pragma once

#include "base/stopwatch.hpp"
#include "device/queue_timer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpt {

/// What an operation cannot be faster than.
enum class Limit {
  arithmetic,  ///< matrix products: the multiply-adds that a core can do
  memory,      ///< the optimizer: its state comes from memory and goes there
  traffic,     ///< others: their operands' bytes, which would not have to leave the caches
};

/// What an operation has to do, whoever does it.
struct Work {
  Limit limit = Limit::traffic;
  double flops = 0.0;           ///< multiplications and additions of matrix products
  DType operands = DType::f32;  ///< of these products
  double bytes = 0.0;           ///< of all operands, each read or written once, both if it is updated
};

/// One call.
struct Operation {
  std::string name;
  Work work;
};

/// All calls of one operation with one shape.
struct OperatorTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0.0;
  Work work;  ///< of all calls
};

/// Where the time of a step went.
struct StepProfile {
  std::vector<OperatorTime> operators;  ///< in the order in which they were first called
  double between = 0.0;  ///< seconds in no operation: communication, waiting, the program itself

  double seconds() const;  ///< of all
};

/// Of two steps with the same operations, the less time of each: what disturbs one operation of a step need
/// not disturb it in another.
StepProfile least_of(const StepProfile& a, const StepProfile& b);

/// Collects what operations take between start() and stop().
class OperatorTimes {
public:
  /// @param timer  of the device's own clock: then the host gives one operation after the other, as in a step
  /// that is not timed. Without it the host waits for each, which is right where work runs as it is given
  explicit OperatorTimes(std::unique_ptr<QueueTimer> timer = nullptr) : timer_(std::move(timer)) {}

  void start();
  /// @param seconds  of the step that began after start()
  StepProfile stop(double seconds);

  /// Runs `run`, which puts one operation on `queue`; while this collects, times it, and counts it as what
  /// `describe` says.
  template <class Describe, class Run>
  void measure(const Describe& describe, Queue& queue, const Run& run) {
    if (!collects_) return run();
    if (timer_) {
      timer_->begin(queue);
      run();
      timer_->end(queue);
      under_way_.push_back(describe());
      return;
    }
    queue.synchronize();
    const Stopwatch watch;
    run();
    queue.synchronize();
    add(describe(), watch.seconds());
  }

private:
  void add(const Operation& operation, double seconds);

  std::unique_ptr<QueueTimer> timer_;
  bool collects_ = false;
  std::vector<Operation> under_way_;  // the spans of the timer
  std::vector<OperatorTime> all_;
};

}  // namespace gpt
