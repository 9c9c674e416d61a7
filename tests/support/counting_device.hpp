#pragma once

#include "device/device.hpp"

#include <memory>
#include <string>

namespace gpt::test {

/// The CPU, counting the bytes that it gives; what its operations take for themselves is not counted.
class CountingDevice : public Device {
public:
  void* allocate(int64_t bytes) override {
    given += bytes;
    return device_->allocate(bytes);
  }
  void release(void* data, int64_t bytes) override { device_->release(data, bytes); }
  std::string name() const override { return device_->name(); }
  bool multiplies(DType type) const override { return device_->multiplies(type); }
  std::unique_ptr<Queue> make_queue() override { return device_->make_queue(); }
  std::unique_ptr<Queue> make_communication_queue() override { return device_->make_communication_queue(); }
  std::unique_ptr<Queue> make_copy_queue() override { return device_->make_copy_queue(); }
  Allocator& host_memory() override { return *this; }
  std::unique_ptr<Event> make_event() override { return device_->make_event(); }
  std::unique_ptr<TimedEvent> make_timed_event() override { return device_->make_timed_event(); }
  Ops& ops() override { return device_->ops(); }
  void reserve(Queue& queue, const ScratchShape& shape) override { device_->reserve(queue, shape); }

  int64_t given = 0;

private:
  std::unique_ptr<Device> device_ = make_cpu_device(1);
};

}  // namespace gpt::test
