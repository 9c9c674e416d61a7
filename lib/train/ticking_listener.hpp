#pragma once

#include "comm/watchdog.hpp"
#include "device/queue.hpp"
#include "model/gpt.hpp"
#include "model/layout.hpp"
#include "train/training_step.hpp"

#include <cstdint>

namespace gpt {

/// Passes on to a step's Reducer what it hears of the model's sections, with a tick for each: a step gives
/// signs of life however large the model is. Faults of the backward pass are injected here.
class TickingListener : public SectionListener {
public:
  /// Keeps references to all of these.
  TickingListener(TrainingStep& step, const Layout& layout, Queue& queue, Watchdog& watchdog);

  void before_use(int64_t section) override;
  void after_gradients(int64_t section) override;

private:
  void spoil(int64_t element);

  TrainingStep& step_;
  SectionListener& next_;
  const Layout& layout_;
  Queue& queue_;
  Watchdog& watchdog_;
};

}  // namespace gpt
