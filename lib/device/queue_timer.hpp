#pragma once

#include "device/queue.hpp"

#include <memory>
#include <vector>

namespace gpt {

/// How long work takes on a device by the device's own clock, while the host goes on giving it more.
class QueueTimer {
public:
  virtual ~QueueTimer() = default;
  /// What `queue` is given until end() is one span. Spans do not overlap.
  virtual void begin(Queue& queue) = 0;
  virtual void end(Queue& queue) = 0;
  /// Waits for the work of all spans. Seconds of each, in their order, and they are forgotten.
  virtual std::vector<double> seconds() = 0;
};

/// For the queues of a GPU, by its index among the visible ones. @throws Error in a build without CUDA
std::unique_ptr<QueueTimer> make_cuda_timer(int index);

}  // namespace gpt
