#include "comm/comm.hpp"
#include "train/device_state.hpp"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpt {
namespace {

/// Work of a queue that nobody has waited for.
using Pending = std::vector<std::function<void()>>;

void finish(Pending& pending) {
  for (const auto& work : std::exchange(pending, {})) work();
}

struct LateEvent : Event {
  void synchronize() override {
    if (pending != nullptr) finish(*pending);
  }
  Pending* pending = nullptr;  // what stood before its record; null: all is done
};

/// Does its copies as late as it may: when somebody waits for them. That is the GPU's freedom.
class LateQueue : public Queue {
public:
  explicit LateQueue(std::unique_ptr<Queue> inner) : inner_(std::move(inner)) {}

  void copy(Tensor dst, Tensor src) override {
    pending_.emplace_back([this, dst, src] { inner_->copy(dst, src); });
  }
  void zero(Tensor dst) override {
    pending_.emplace_back([this, dst] { inner_->zero(dst); });
  }
  void host(std::function<void()> task) override { pending_.push_back(std::move(task)); }
  void record(Event& event) override { dynamic_cast<LateEvent&>(event).pending = &pending_; }
  void wait(Event& event) override { event.synchronize(); }
  void synchronize() override { finish(pending_); }
  void pause(int64_t idle, std::chrono::nanoseconds time) override { inner_->pause(idle, time); }

private:
  std::unique_ptr<Queue> inner_;
  Pending pending_;
};

/// Does everything at once, as the CPU does, but knows late events.
class PromptQueue : public Queue {
public:
  explicit PromptQueue(std::unique_ptr<Queue> inner) : inner_(std::move(inner)) {}

  void copy(Tensor dst, Tensor src) override { inner_->copy(dst, src); }
  void zero(Tensor dst) override { inner_->zero(dst); }
  void host(std::function<void()> task) override { inner_->host(std::move(task)); }
  void record(Event& event) override { dynamic_cast<LateEvent&>(event).pending = nullptr; }
  void wait(Event& event) override { event.synchronize(); }
  void synchronize() override { inner_->synchronize(); }
  void pause(int64_t idle, std::chrono::nanoseconds time) override { inner_->pause(idle, time); }

private:
  std::unique_ptr<Queue> inner_;
};

/// The CPU, but that copies beside the computing are late.
class LateDevice : public Device {
public:
  void* allocate(int64_t bytes) override { return device_->allocate(bytes); }
  void release(void* data, int64_t bytes) override { device_->release(data, bytes); }
  std::string name() const override { return device_->name(); }
  bool multiplies(DType type) const override { return device_->multiplies(type); }
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<PromptQueue>(device_->make_queue());
  }
  std::unique_ptr<Queue> make_communication_queue() override { return device_->make_communication_queue(); }
  std::unique_ptr<Queue> make_copy_queue() override {
    return std::make_unique<LateQueue>(device_->make_copy_queue());
  }
  Allocator& host_memory() override { return *this; }
  std::unique_ptr<Event> make_event() override { return std::make_unique<LateEvent>(); }
  std::unique_ptr<TimedEvent> make_timed_event() override { return device_->make_timed_event(); }
  Ops& ops() override { return device_->ops(); }
  void reserve(Queue& queue, const ScratchShape& shape) override { device_->reserve(queue, shape); }

private:
  std::unique_ptr<Device> device_ = make_cpu_device(1);
};

constexpr GptConfig model{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 5};

/// What is saved of a state of ones that an update overwrites right after the copies were ordered.
float saved_value(bool protects) {
  LateDevice device;
  const Layout layout(model);
  const Buckets buckets(layout, 1024);
  const auto comm = make_mpi_comm(MPI_COMM_SELF);
  const auto compute = device.make_queue();
  const TensorBuffer values(device, DType::f32, {layout.size()});
  float* const data = values->data<float>();
  std::fill(data, data + layout.size(), 1.0F);
  const std::vector<DeviceState> states = {whole_state("params", values)};
  SavedParts parts(states, layout, buckets, *comm, device);
  parts.take(states, *compute);
  if (protects) parts.protect(*compute);
  compute->zero(values);
  parts.wait();
  return *parts.state().front().data.data<float>();
}

TEST_CASE("an update that is given after protect() waits for the copies of the state before it") {
  CHECK(saved_value(true) == 1.0F);
  CHECK(saved_value(false) == 0.0F);  // else this test would show nothing
}

}  // namespace
}  // namespace gpt
