#pragma once

#include "bench/operator_times.hpp"
#include "device/device.hpp"

#include <memory>
#include <string>
#include <utility>

namespace gpt {

/// The operations of another backend, each timed by itself while `times` are on.
class TimedOps final : public Ops {
public:
  TimedOps(Ops& ops, OperatorTimes& times) : ops_(ops), times_(times) {}

  void embed(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, int64_t first_position, const Dropout& dropout,
             Queue& queue) override;
  void embed_backward(Tensor d_wte, Tensor d_wpe, Tensor dx, Tensor tokens, const Dropout& dropout,
                      Write wpe_write, Queue& queue) override;
  void add_norm(Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor delta, Tensor weight,
                Tensor bias, const Dropout& dropout, Queue& queue) override;
  void add_norm_backward(Tensor dx, Tensor d_delta, Tensor d_weight, Tensor d_bias, Tensor dy, Tensor sum,
                         Tensor mean, Tensor rstd, Tensor weight, const Dropout& dropout, Write dx_write,
                         Write write, Queue& queue) override;
  void linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation,
              Queue& queue) override;
  void activate(Tensor y, Tensor pre, Activation activation, Queue& queue) override;
  void linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                             Queue& queue) override;
  void linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue& queue) override;
  void attention(Tensor y, Tensor log_sum, Tensor qkv, int64_t heads, const Dropout& dropout,
                 Queue& queue) override;
  void attention_backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, int64_t heads,
                          const Dropout& dropout, Queue& queue) override;
  void attention_cached(Tensor y, Tensor keys, Tensor values, Tensor qkv, int64_t position, int64_t heads,
                        Queue& queue) override;
  void classifier(Tensor loss_sum, Tensor dx, Tensor dw, Tensor x, Tensor w, Tensor targets,
                  int64_t vocabulary, float scale, Write write, Queue& queue) override;
  void add(Tensor sum, Tensor x, Queue& queue) override;
  void sum_in_order(Tensor sum, Tensor terms, Queue& queue) override;
  void square_sums(Tensor sums, Tensor g, Queue& queue) override;
  void clip_scale(Tensor scalars, Tensor sums, const StepLimits& limits, Queue& queue) override;
  void adamw(Tensor p, Tensor half, Tensor m, Tensor v, Tensor g, Tensor scalars, const AdamWStep& step,
             Queue& queue) override;
  void round(Tensor half, Tensor p, const WeightRounding& rounding, Queue& queue) override;
  void cast(Tensor dst, Tensor src, Queue& queue) override;

private:
  Ops& ops_;
  OperatorTimes& times_;
};

/// Another device whose operations are timed.
class TimedDevice final : public Device {
public:
  TimedDevice(std::unique_ptr<Device> device, OperatorTimes& times)
      : device_(std::move(device)), ops_(device_->ops(), times) {}

  void* allocate(int64_t bytes) override { return device_->allocate(bytes); }
  void release(void* data, int64_t bytes) override { device_->release(data, bytes); }
  std::string name() const override { return device_->name(); }
  bool multiplies(DType type) const override { return device_->multiplies(type); }
  std::unique_ptr<Queue> make_queue() override { return device_->make_queue(); }
  std::unique_ptr<Queue> make_communication_queue() override { return device_->make_communication_queue(); }
  std::unique_ptr<Queue> make_copy_queue() override { return device_->make_copy_queue(); }
  Allocator& host_memory() override { return device_->host_memory(); }
  std::unique_ptr<Event> make_event() override { return device_->make_event(); }
  std::unique_ptr<TimedEvent> make_timed_event() override { return device_->make_timed_event(); }
  Ops& ops() override { return ops_; }
  void reserve(Queue& queue, const ScratchShape& shape) override { device_->reserve(queue, shape); }

private:
  std::unique_ptr<Device> device_;
  TimedOps ops_;
};

}  // namespace gpt
