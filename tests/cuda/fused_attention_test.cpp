#include "base/error.hpp"
#include "base/normal.hpp"
#include "device/cuda/cuda_ops.hpp"
#include "device/cuda_device.hpp"

#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

using namespace gpt;

namespace {

constexpr int64_t sequences = 2, context = 24, heads = 2, head_size = 16, width = heads * head_size;
constexpr HeadShape shape{.positions = context, .heads = heads, .head_size = head_size};

/// A library that computes nothing and notes what it is asked.
class NotedAttention final : public FusedAttention {
public:
  struct Notes {
    std::string no_forward, no_backward;  ///< what it has against a pass
    int forwards = 0, backwards = 0;
    std::vector<void*> tensors;  ///< of the last call
  };
  explicit NotedAttention(Notes& notes) : notes_(notes) {}

  const std::string& refusal(Pass pass, int64_t of, const HeadShape& heads_of) override {
    CHECK(of == sequences);
    CHECK(heads_of.positions == shape.positions);
    CHECK(heads_of.heads == shape.heads);
    CHECK(heads_of.head_size == shape.head_size);
    return pass == Pass::forward ? notes_.no_forward : notes_.no_backward;
  }
  void forward(Tensor y, Tensor log_sum, Tensor qkv, const HeadShape&, CudaQueue&) override {
    ++notes_.forwards;
    notes_.tensors = {y.raw(), log_sum.raw(), qkv.raw()};
  }
  void backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, const HeadShape&,
                CudaQueue&) override {
    ++notes_.backwards;
    notes_.tensors = {dqkv.raw(), dy.raw(), y.raw(), qkv.raw(), log_sum.raw()};
  }

private:
  Notes& notes_;
};

/// Attention's tensors on the GPU, `off` elements behind where they begin, and what became of them.
class Call {
public:
  explicit Call(DType type, int64_t off = 0)
      : off_(off),
        qkv_(*device_, type, {rows * 3 * width + off}),
        dqkv_(*device_, type, {rows * 3 * width + off}),
        y_(*device_, type, {rows * width + off}),
        dy_(*device_, type, {rows * width + off}),
        log_sum_(*device_, DType::f32, {sequences, heads, context}) {
    fill(qkv(), 1);
    fill(dy(), 2);
  }

  void run(Ops& ops, const Dropout& dropout = {}) {
    ops.attention(y(), log_sum_, qkv(), heads, dropout, *queue_);
    ops.attention_backward(dqkv(), dy(), y(), qkv(), log_sum_, heads, dropout, *queue_);
    queue_->synchronize();
  }
  /// Whether y, and the gradient, were written: they begin as zeros.
  bool wrote_y() { return any(y()); }
  bool wrote_gradient() { return any(dqkv()); }

  Tensor qkv() { return part(qkv_, 3 * width); }
  Tensor dqkv() { return part(dqkv_, 3 * width); }
  Tensor y() { return part(y_, width); }
  Tensor dy() { return part(dy_, width); }
  Tensor log_sum() { return log_sum_; }

private:
  static constexpr int64_t rows = sequences * context;

  Tensor part(Tensor whole, int64_t columns) const {
    return whole.flat({off_, off_ + rows * columns}).view({sequences, context, columns});
  }
  void fill(Tensor to, uint64_t key) {
    std::vector<float> values;
    for (int64_t i = 0; i < to.size(); ++i)
      values.push_back(static_cast<float>(random_normal(key, static_cast<uint64_t>(i))));
    const TensorBuffer wide(*device_, DType::f32, {to.size()});
    queue_->copy(wide, Tensor(values.data(), DType::f32, {to.size()}));
    if (to.dtype() == DType::f32)
      queue_->copy(to.view({to.size()}), wide);
    else
      device_->ops().cast(to.view({to.size()}), wide, *queue_);
    queue_->synchronize();
  }
  bool any(Tensor of) {
    std::vector<std::byte> bytes(static_cast<size_t>(of.bytes()));
    queue_->copy(Tensor(bytes.data(), of.dtype(), {of.size()}), of.view({of.size()}));
    queue_->synchronize();
    for (const std::byte byte : bytes)
      if (byte != std::byte{0}) return true;
    return false;
  }

  int64_t off_;
  std::unique_ptr<Device> device_ = make_cuda_device(0);
  std::unique_ptr<Queue> queue_ = device_->make_queue();
  TensorBuffer qkv_, dqkv_, y_, dy_, log_sum_;
};

CudaOps ops_with(NotedAttention::Notes& notes) { return {{}, std::make_unique<NotedAttention>(notes)}; }

}  // namespace

TEST_CASE("a library computes the attention that it can, on the tensors as they lie") {
  Call call(DType::bf16);
  NotedAttention::Notes notes;
  CudaOps ops = ops_with(notes);
  call.run(ops);
  CHECK(notes.forwards == 1);
  CHECK(notes.backwards == 1);
  CHECK(notes.tensors == std::vector<void*>{call.dqkv().raw(), call.dy().raw(), call.y().raw(),
                                            call.qkv().raw(), call.log_sum().raw()});
  CHECK_FALSE(call.wrote_y());
  CHECK_FALSE(call.wrote_gradient());
}

TEST_CASE("each pass that a library refuses is our own") {
  for (const bool forward : {false, true}) {
    CAPTURE(forward);
    Call call(DType::bf16);
    NotedAttention::Notes notes;
    (forward ? notes.no_forward : notes.no_backward) = "it cannot";
    CudaOps ops = ops_with(notes);
    call.run(ops);
    CHECK(notes.forwards == (forward ? 0 : 1));
    CHECK(notes.backwards == (forward ? 1 : 0));
    CHECK(call.wrote_y() == forward);
    CHECK(call.wrote_gradient() == !forward);
  }
}

TEST_CASE("dropout, fp32 and odd addresses are our own attention's, whatever a library can do") {
  NotedAttention::Notes notes;
  CudaOps ops = ops_with(notes);
  Call dropped(DType::bf16), fp32(DType::f32), odd(DType::bf16, 1);
  dropped.run(ops, {.rate = 0.5F, .seed = 1});
  fp32.run(ops);
  odd.run(ops);
  CHECK(notes.forwards == 0);
  CHECK(notes.backwards == 0);
  for (Call* call : {&dropped, &fp32, &odd}) {
    CHECK(call->wrote_y());
    CHECK(call->wrote_gradient());
  }
}

TEST_CASE("a step is told why its attention is our own") {
  NotedAttention::Notes notes;
  CudaOps ops = ops_with(notes);
  const AttentionShape step{
      .sequences = sequences, .context = context, .width = width, .heads = heads, .type = DType::bf16};
  CHECK(ops.why_own_attention(step).empty());
  AttentionShape dropped = step;
  dropped.dropout = 0.1F;
  CHECK(ops.why_own_attention(dropped).find("dropout") != std::string::npos);
  notes.no_backward = "it is slow";
  CHECK(ops.why_own_attention(step) == "backward: it is slow");
  notes.no_forward = "it is lazy";
  CHECK(ops.why_own_attention(step) == "forward: it is lazy");
  CHECK(notes.forwards + notes.backwards == 0);
}

TEST_CASE("a build without cuDNN refuses to make its attention") {
  if (has_cudnn_attention()) return;
  CHECK_THROWS_WITH_AS(make_cuda_device(0, {.cudnn_attention = true}), doctest::Contains("no cuDNN"), Error);
}
