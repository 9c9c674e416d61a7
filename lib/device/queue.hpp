#pragma once

#include "device/tensor.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

namespace gpt {

/// A mark in a queue's order. Made by Device::make_event; belongs to the backend of its device.
class Event {
public:
  virtual ~Event() = default;
  /// The caller waits until what stood before the last record is done; at once if there was none.
  virtual void synchronize() = 0;
};

/// Work in order. On CUDA a stream. On the CPU work of a compute queue runs as it is given, and a
/// communication queue has a thread of its own: an exception of its work comes out of the next call that
/// waits for it.
class Queue {
public:
  virtual ~Queue() = default;

  /// dst = src, same dtype and size; either may be host memory.
  virtual void copy(Tensor dst, Tensor src) = 0;
  virtual void zero(Tensor dst) = 0;

  /// Runs `task` on the host when all work before it is done; work after it waits for it. The task must not
  /// call the device.
  virtual void host(std::function<void()> task) = 0;

  virtual void record(Event& event) = 0;
  /// Work given from now on waits for what stood before `event` was recorded.
  virtual void wait(Event& event) = 0;
  /// The caller waits until the queue is empty.
  virtual void synchronize() = 0;

  /// For a host task that polls: gives the core away for about `time`; for less while somebody waits for this
  /// queue, and then for short times not at all until many `idle` rounds have brought nothing.
  /// @throws Error when the queue is given up because an exception passes
  virtual void pause(int64_t idle, std::chrono::nanoseconds time) = 0;
};

}  // namespace gpt
