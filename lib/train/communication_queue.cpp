#include "train/communication_queue.hpp"

namespace gpt {

CommunicationQueue::CommunicationQueue(Device& device)
    : ready_(device.make_event()), queue_(device.make_communication_queue()) {}

void CommunicationQueue::start(Queue& compute, const std::function<void(Queue&)>& operation) {
  compute.record(*ready_);
  queue_->wait(*ready_);
  if (clock_ != nullptr) clock_->begin_operation(*queue_);
  operation(*queue_);
  if (clock_ != nullptr) clock_->end_operation(*queue_);
}

void CommunicationQueue::wait(Queue& compute, Event& event) const {
  if (clock_ != nullptr)
    clock_->wait(compute, event);
  else
    compute.wait(event);
}

}  // namespace gpt
