#include "support/staged_device.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gpt::test {
namespace {

constexpr int64_t margin = 256;  // bytes of sentinels on either side
constexpr std::byte sentinel{0xA5};

/// Bytes as elements that every dtype is made of: two bytes each.
Tensor as_words(void* data, int64_t bytes) { return {data, DType::bf16, {bytes / 2}}; }

/// The tensors of one operation on the device. Host memory that is given twice is one tensor there, too.
class Stage {
public:
  Stage(Device& device, Queue& queue, Placement placement)
      : device_(device), queue_(queue), placement_(placement) {}

  Tensor operator()(const Tensor& host) {
    if (!host) return {};
    const auto [known, is_new] = copies_.try_emplace(host.raw());
    Copy& copy = known->second;
    if (is_new) bring(copy, host);
    expects(copy.bytes == host.bytes());
    Tensor there(copy.place, host.dtype(), {host.size()});
    switch (host.rank()) {
      case 1:
        return there;
      case 2:
        return there.view({host.dim(0), host.dim(1)});
      case 3:
        return there.view({host.dim(0), host.dim(1), host.dim(2)});
      default:
        return there.view({host.dim(0), host.dim(1), host.dim(2), host.dim(3)});
    }
  }

  /// Brings everything back, what should not have changed too.
  void finish() {
    for (auto& [data, copy] : copies_)
      queue_.copy(copy.image_tensor(), as_words(copy.memory.data(), copy.whole()));
    queue_.synchronize();
    for (auto& [data, copy] : copies_) {
      const auto begin = copy.image.begin() + copy.before, end = begin + copy.bytes;
      const auto stands = [](std::byte b) { return b == sentinel; };
      validate(std::all_of(copy.image.begin(), begin, stands) && std::all_of(end, copy.image.end(), stands),
               ExitCode::failed, "an operation has written beside a tensor of {} bytes", copy.bytes);
      std::copy(begin, end, static_cast<std::byte*>(data));
    }
  }

private:
  struct Copy {
    Buffer memory;
    std::vector<std::byte> image;  ///< of all of it, on the host
    int64_t before = margin, bytes = 0;
    void* place = nullptr;

    int64_t whole() const { return std::ssize(image); }
    Tensor image_tensor() { return as_words(image.data(), whole()); }
  };

  void bring(Copy& copy, const Tensor& host) {
    copy.bytes = host.bytes();
    copy.before = margin + (placement_ == Placement::odd ? size_of(host.dtype()) : 0);
    copy.image.assign(static_cast<size_t>(copy.before + copy.bytes + margin), sentinel);
    std::memcpy(copy.image.data() + copy.before, host.raw(), static_cast<size_t>(copy.bytes));
    copy.memory = Buffer(device_, copy.whole());
    copy.place = static_cast<std::byte*>(copy.memory.data()) + copy.before;
    queue_.copy(as_words(copy.memory.data(), copy.whole()), copy.image_tensor());
  }

  Device& device_;
  Queue& queue_;
  Placement placement_;
  std::map<void*, Copy> copies_;
};

class StagedOps final : public Ops {
public:
  StagedOps(Device& device, Placement placement)
      : device_(device), ops_(device.ops()), placement_(placement) {}

  void embed(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, int64_t first_position, const Dropout& dropout,
             Queue& queue) override {
    on(queue,
       [&](Stage& at) { ops_.embed(at(x), at(tokens), at(wte), at(wpe), first_position, dropout, queue); });
  }
  void embed_backward(Tensor d_wte, Tensor d_wpe, Tensor dx, Tensor tokens, const Dropout& dropout,
                      Write wpe_write, Queue& queue) override {
    on(queue, [&](Stage& at) {
      ops_.embed_backward(at(d_wte), at(d_wpe), at(dx), at(tokens), dropout, wpe_write, queue);
    });
  }
  void add_norm(Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor delta, Tensor weight,
                Tensor bias, const Dropout& dropout, Queue& queue) override {
    on(queue, [&](Stage& at) {
      ops_.add_norm(at(sum), at(y), at(mean), at(rstd), at(x), at(delta), at(weight), at(bias), dropout,
                    queue);
    });
  }
  void add_norm_backward(Tensor dx, Tensor d_delta, Tensor d_weight, Tensor d_bias, Tensor dy, Tensor sum,
                         Tensor mean, Tensor rstd, Tensor weight, const Dropout& dropout, Write dx_write,
                         Write write, Queue& queue) override {
    on(queue, [&](Stage& at) {
      ops_.add_norm_backward(at(dx), at(d_delta), at(d_weight), at(d_bias), at(dy), at(sum), at(mean),
                             at(rstd), at(weight), dropout, dx_write, write, queue);
    });
  }
  void linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation,
              Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.linear(at(y), at(pre), at(x), at(w), at(b), activation, queue); });
  }
  void activate(Tensor y, Tensor pre, Activation activation, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.activate(at(y), at(pre), activation, queue); });
  }
  void linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                             Queue& queue) override {
    on(queue,
       [&](Stage& at) { ops_.linear_backward_input(at(dx), at(dy), at(w), at(pre), activation, queue); });
  }
  void linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.linear_backward_weight(at(dw), at(db), at(dy), at(x), write, queue); });
  }
  void attention(Tensor y, Tensor log_sum, Tensor qkv, int64_t heads, const Dropout& dropout,
                 Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.attention(at(y), at(log_sum), at(qkv), heads, dropout, queue); });
  }
  void attention_backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, int64_t heads,
                          const Dropout& dropout, Queue& queue) override {
    on(queue, [&](Stage& at) {
      ops_.attention_backward(at(dqkv), at(dy), at(y), at(qkv), at(log_sum), heads, dropout, queue);
    });
  }
  void attention_cached(Tensor y, Tensor keys, Tensor values, Tensor qkv, int64_t position, int64_t heads,
                        Queue& queue) override {
    on(queue, [&](Stage& at) {
      ops_.attention_cached(at(y), at(keys), at(values), at(qkv), position, heads, queue);
    });
  }
  void classifier(Tensor loss_sum, Tensor dx, Tensor dw, Tensor x, Tensor w, Tensor targets,
                  int64_t vocabulary, float scale, Write write, Queue& queue) override {
    on(queue, [&](Stage& at) {
      ops_.classifier(at(loss_sum), at(dx), at(dw), at(x), at(w), at(targets), vocabulary, scale, write,
                      queue);
    });
  }
  void add(Tensor sum, Tensor x, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.add(at(sum), at(x), queue); });
  }
  void sum_in_order(Tensor sum, Tensor terms, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.sum_in_order(at(sum), at(terms), queue); });
  }
  void square_sums(Tensor sums, Tensor g, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.square_sums(at(sums), at(g), queue); });
  }
  void clip_scale(Tensor scalars, Tensor sums, const StepLimits& limits, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.clip_scale(at(scalars), at(sums), limits, queue); });
  }
  void adamw(Tensor p, Tensor half, Tensor m, Tensor v, Tensor g, Tensor scalars, const AdamWStep& step,
             Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.adamw(at(p), at(half), at(m), at(v), at(g), at(scalars), step, queue); });
  }
  void round(Tensor half, Tensor p, const WeightRounding& rounding, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.round(at(half), at(p), rounding, queue); });
  }
  void cast(Tensor dst, Tensor src, Queue& queue) override {
    on(queue, [&](Stage& at) { ops_.cast(at(dst), at(src), queue); });
  }

private:
  void on(Queue& queue, const std::function<void(Stage&)>& operation) {
    Stage stage(device_, queue, placement_);
    operation(stage);
    stage.finish();
  }

  Device& device_;
  Ops& ops_;
  Placement placement_;
};

class StagedDevice final : public Device {
public:
  StagedDevice(std::unique_ptr<Device> inner, Placement placement)
      : inner_(std::move(inner)), placement_(placement), ops_(*inner_, placement) {}

  void* allocate(int64_t bytes) override { return host_->allocate(bytes); }
  void release(void* data, int64_t bytes) override { host_->release(data, bytes); }
  std::string name() const override {
    return inner_->name() + (placement_ == Placement::odd ? ", tensors at odd addresses" : "");
  }
  bool multiplies(DType type) const override { return inner_->multiplies(type); }
  std::unique_ptr<Queue> make_queue() override { return inner_->make_queue(); }
  std::unique_ptr<Queue> make_communication_queue() override { return inner_->make_communication_queue(); }
  std::unique_ptr<Queue> make_copy_queue() override { return inner_->make_copy_queue(); }
  Allocator& host_memory() override { return inner_->host_memory(); }
  std::unique_ptr<Event> make_event() override { return inner_->make_event(); }
  std::unique_ptr<TimedEvent> make_timed_event() override { return inner_->make_timed_event(); }
  Ops& ops() override { return ops_; }
  void reserve(Queue& queue, const ScratchShape& shape) override { inner_->reserve(queue, shape); }

private:
  std::unique_ptr<Device> host_ = make_cpu_device(1);
  std::unique_ptr<Device> inner_;
  Placement placement_;
  StagedOps ops_;
};

}  // namespace

std::unique_ptr<Device> make_staged_device(std::unique_ptr<Device> inner, Placement placement) {
  return std::make_unique<StagedDevice>(std::move(inner), placement);
}

}  // namespace gpt::test
