#pragma once

#include "device/queue.hpp"

namespace gpt {

/// An Event that knows when it was reached. Made by Device::make_timed_event.
class TimedEvent : public Event {
public:
  /// Whether what stood before the last record is done; true if there was none. Does not wait.
  /// @throws what that work threw
  virtual bool reached() const = 0;

  /// Seconds between the moments at which the queues came to the last records of `earlier` and of this one,
  /// both of one device. Both have been reached.
  virtual double seconds_since(const TimedEvent& earlier) const = 0;
};

}  // namespace gpt
