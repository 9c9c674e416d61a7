#include "train/communication_queue.hpp"

#include <optional>

namespace gpt {

CommunicationQueue::CommunicationQueue(Device& device)
    : ready_(device.make_event()), queue_(device.make_communication_queue()) {}

void CommunicationQueue::start(Queue& compute, const std::function<void(Queue&)>& operation) {
  compute.record(*ready_);
  queue_->wait(*ready_);
  StepClock* const clock = clock_;
  if (clock != nullptr) queue_->host([clock] { clock->begin_operation(); });
  operation(*queue_);
  if (clock != nullptr) queue_->host([clock] { clock->end_operation(); });
}

void CommunicationQueue::wait(Queue& compute, Event& event) const {
  std::optional<StepClock::Wait> waiting;  // on the CPU it is the host that waits
  if (clock_ != nullptr) waiting.emplace(*clock_);
  compute.wait(event);
}

}  // namespace gpt
