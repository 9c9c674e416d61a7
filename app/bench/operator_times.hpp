#pragma once

#include "base/stopwatch.hpp"
#include "device/queue.hpp"

#include <cstdint>
#include <string>
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
  void start();
  /// @param seconds  of the step that began after start()
  StepProfile stop(double seconds);

  /// Runs `run`, which puts one operation on `queue`; while this collects, waits for it, and counts it as
  /// what `describe` says.
  template <class Describe, class Run>
  void measure(const Describe& describe, Queue& queue, const Run& run) {
    if (!collects_) return run();
    queue.synchronize();
    const Stopwatch watch;
    run();
    queue.synchronize();
    add(describe(), watch.seconds());
  }

private:
  void add(const Operation& operation, double seconds);

  bool collects_ = false;
  std::vector<OperatorTime> all_;
};

}  // namespace gpt
