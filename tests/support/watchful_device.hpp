#pragma once

#include "device/device.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpt::test {

/// The CPU, watching over what a device with a memory and a time of its own would take badly: host memory
/// that changes after it was given to a queue to copy from and before the queue is synchronized.
class WatchfulDevice : public Device {
public:
  void* allocate(int64_t bytes) override {
    void* const data = device_->allocate(bytes);
    blocks_[static_cast<std::byte*>(data)] = bytes;
    return data;
  }
  void release(void* data, int64_t bytes) override {
    blocks_.erase(static_cast<std::byte*>(data));
    device_->release(data, bytes);
  }
  std::string name() const override { return device_->name(); }
  bool multiplies(DType type) const override { return device_->multiplies(type); }
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<WatchfulQueue>(*this, device_->make_queue());
  }
  std::unique_ptr<Queue> make_communication_queue() override { return device_->make_communication_queue(); }
  std::unique_ptr<Queue> make_copy_queue() override { return device_->make_copy_queue(); }
  Allocator& host_memory() override { return device_->host_memory(); }
  std::unique_ptr<Event> make_event() override { return device_->make_event(); }
  std::unique_ptr<TimedEvent> make_timed_event() override { return device_->make_timed_event(); }
  Ops& ops() override { return device_->ops(); }
  void reserve(Queue& queue, const ScratchShape& shape) override { device_->reserve(queue, shape); }

  int64_t tokens_uploaded = 0;  ///< i32 elements copied from the host into the device's memory
  int64_t changed_too_early = 0;

private:
  class WatchfulQueue : public Queue {
  public:
    WatchfulQueue(WatchfulDevice& device, std::unique_ptr<Queue> queue)
        : device_(device), queue_(std::move(queue)) {}

    void copy(Tensor dst, Tensor src) override {
      queue_->copy(dst, src);
      if (device_.holds(src) || !device_.holds(dst)) return;
      const auto* const from = static_cast<const std::byte*>(src.raw());
      under_way_.push_back({from, {from, from + src.bytes()}});
      if (src.dtype() == DType::i32) device_.tokens_uploaded += src.size();
    }
    void zero(Tensor dst) override { queue_->zero(dst); }
    void host(std::function<void()> task) override { queue_->host(std::move(task)); }
    void record(Event& event) override { queue_->record(event); }
    void wait(Event& event) override { queue_->wait(event); }
    void synchronize() override {
      queue_->synchronize();
      for (const Source& source : under_way_)
        if (!std::equal(source.bytes.begin(), source.bytes.end(), source.data)) ++device_.changed_too_early;
      under_way_.clear();
    }
    void pause(int64_t idle, std::chrono::nanoseconds time) override { queue_->pause(idle, time); }

  private:
    struct Source {
      const std::byte* data;
      std::vector<std::byte> bytes;  // when it was given
    };

    WatchfulDevice& device_;
    std::unique_ptr<Queue> queue_;
    std::vector<Source> under_way_;
  };

  bool holds(const Tensor& tensor) const {
    const auto* const data = static_cast<const std::byte*>(tensor.raw());
    const auto behind = blocks_.upper_bound(data);
    if (behind == blocks_.begin()) return false;
    const auto& [block, bytes] = *std::prev(behind);
    return data < block + bytes;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::map<const std::byte*, int64_t> blocks_;
};

}  // namespace gpt::test
