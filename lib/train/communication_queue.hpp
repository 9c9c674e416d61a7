#pragma once

#include "device/device.hpp"
#include "train/step_clock.hpp"

#include <functional>
#include <memory>

namespace gpt {

/// The queue of communication beside one that computes. All that training does between ranks goes through
/// here, so that a clock hears of all of it.
class CommunicationQueue {
public:
  explicit CommunicationQueue(Device& device);

  /// From now on `clock` hears of waits and of operations; null: nobody does.
  void measure(StepClock* clock) { clock_ = clock; }

  /// Gives `operation`, which puts its work on the queue that it is called with, after all that was given to
  /// `compute` so far.
  void start(Queue& compute, const std::function<void(Queue&)>& operation);

  /// `event` is when all operations started so far have ended.
  void record(Event& event) { queue_->record(event); }

  /// Work given to `compute` from now on waits for `event`.
  void wait(Queue& compute, Event& event) const;

private:
  StepClock* clock_ = nullptr;
  std::unique_ptr<Event> ready_;
  std::unique_ptr<Queue> queue_;  // last: its thread uses the others
};

}  // namespace gpt
