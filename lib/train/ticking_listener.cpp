#include "train/ticking_listener.hpp"

#include "base/fault.hpp"

#include <limits>

namespace gpt {

TickingListener::TickingListener(TrainingStep& step, const Layout& layout, Queue& queue, Watchdog& watchdog)
    : step_(step), next_(step.reducer()), layout_(layout), queue_(queue), watchdog_(watchdog) {}

void TickingListener::before_use(int64_t section) {
  watchdog_.tick();
  next_.before_use(section);
}

void TickingListener::after_gradients(int64_t section) {
  fault_point("backward");
  if (value_point("gradients")) spoil(layout_.sections()[static_cast<size_t>(section)].range.begin);
  next_.after_gradients(section);
  watchdog_.tick();
}

void TickingListener::spoil(int64_t element) {
  static float nothing = std::numeric_limits<float>::quiet_NaN();
  queue_.copy(step_.gradients().flat({element, element + 1}), Tensor(&nothing, DType::f32, {1}));
}

}  // namespace gpt
