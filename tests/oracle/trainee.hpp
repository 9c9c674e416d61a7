#pragma once

#include "base/error.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "oracle/oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gpt::test {

/// A model in training with the oracle's initial weights.
class Trainee {
public:
  /// @param type  of activations and of the matrices that the model reads: rounded from f32 for bf16
  Trainee(const Oracle& oracle, int threads, DType type = DType::f32)
      : oracle_(oracle),
        type_(type),
        config_(oracle.config()),
        layout_(config_),
        device_(make_cpu_device(threads)) {
    for (const Parameter& parameter : layout_.all())
      put(weights_, parameter, oracle.floats("weights/" + parameter.name));
    if (half_) device_->ops().cast(*half_, weights_->flat(layout_.matrices()), *queue_);
  }

  const GptConfig& config() const { return config_; }
  const Layout& layout() const { return layout_; }
  int64_t sequences() const { return oracle_.integer("sequences"); }
  int64_t positions() const { return sequences() * config_.context; }

  std::vector<float> logits(const std::vector<int32_t>& inputs) {
    const TensorBuffer out(*device_, type_, {sequences(), config_.context, config_.padded_vocabulary()});
    const TensorBuffer wide(*device_, DType::f32, {out->size()});
    const Batch batch = upload(inputs, inputs, {0, sequences()});
    gpt_.logits(out, batch, *queue_);
    if (type_ != DType::f32) device_->ops().cast(wide, out->flat({0, out->size()}), *queue_);
    const std::vector<float> padded = download(type_ == DType::f32 ? *out : *wide);
    std::vector<float> result;
    for (int64_t row = 0; row < positions(); ++row) {
      const auto first = padded.begin() + row * config_.padded_vocabulary();
      result.insert(result.end(), first, first + config_.vocabulary);
    }
    return result;
  }

  double mean_evaluation_loss(const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets) {
    queue_->zero(scalars_);
    gpt_.evaluate(upload(inputs, targets, {0, sequences()}), loss_sum(), silent_, *queue_);
    return scalar(StepScalar::loss_sum) / static_cast<double>(positions());
  }

  /// Gradients of the mean loss, in micro-batches of `micro` sequences; returns the loss.
  double train(const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets, int64_t micro) {
    queue_->zero(scalars_);
    for (int64_t first = 0; first < sequences(); first += micro) {
      const Batch batch = upload(inputs, targets, {first, std::min(first + micro, sequences())});
      const MicroStep step = {.scale = 1.0F / static_cast<float>(positions()),
                              .write = first == 0 ? Write::overwrite : Write::accumulate};
      gpt_.train(batch, loss_sum(), step, silent_, *queue_);
    }
    return scalar(StepScalar::loss_sum) / static_cast<double>(positions());
  }

  /// Clips and updates; returns the norm before clipping.
  double update(int64_t step, float lr) {
    Ops& ops = device_->ops();
    ops.square_sums(sums_, gradients_, *queue_);
    ops.clip_scale(scalars_, sums_, {.clip = oracle_.real("clip")}, *queue_);
    adamw(layout_.matrices(), half(), step, lr, oracle_.real("weight_decay"));
    adamw(layout_.vectors(), {}, step, lr, 0.0);
    return scalar(StepScalar::grad_norm);
  }

  std::vector<float> gradient(const Parameter& parameter) { return named(gradients_, parameter); }
  std::vector<float> weight(const Parameter& parameter) { return named(weights_, parameter); }

  /// Elements of the weights that belong to no named view and are not zero.
  int64_t stray_elements() {
    std::vector<float> all = download(weights_);
    for (const Parameter& parameter : layout_.all()) {
      std::fill_n(all.begin() + parameter.offset, parameter.size(), 0.0F);
    }
    return std::ssize(all) - std::count(all.begin(), all.end(), 0.0F);
  }

private:
  Tensor loss_sum() { return scalars_->flat({0, 1}); }

  double scalar(StepScalar which) {
    std::vector<double> host(static_cast<size_t>(StepScalar::count));
    queue_->copy(Tensor(host.data(), DType::f64, {std::ssize(host)}), scalars_);
    queue_->synchronize();
    return host[static_cast<size_t>(which)];
  }

  std::vector<float> download(const Tensor& tensor) {
    std::vector<float> host(static_cast<size_t>(tensor.size()));
    queue_->copy(Tensor(host.data(), DType::f32, {tensor.size()}), tensor.flat({0, tensor.size()}));
    queue_->synchronize();
    return host;
  }

  std::vector<float> named(const Tensor& flat, const Parameter& parameter) {
    return download(flat.flat({parameter.offset, parameter.offset + parameter.size()}));
  }

  void put(const Tensor& flat, const Parameter& parameter, std::vector<float> values) {
    validate(std::ssize(values) == parameter.size(), "{} has another shape in the oracle", parameter.name);
    queue_->copy(flat.flat({parameter.offset, parameter.offset + parameter.size()}),
                 Tensor(values.data(), DType::f32, {std::ssize(values)}));
    queue_->synchronize();
  }

  Batch upload(std::vector<int32_t> inputs, std::vector<int32_t> targets, Range range) {
    const auto move = [&](const TensorBuffer& to, std::vector<int32_t>& from) {
      const Tensor host(from.data(), DType::i32, {sequences(), config_.context});
      queue_->copy(to->slice(range), host.slice(range));
      queue_->synchronize();
      return to->slice(range);
    };
    return {
        .inputs = move(inputs_, inputs), .targets = move(targets_, targets), .first_sequence = range.begin};
  }

  void adamw(Range range, Tensor rounded, int64_t step, float lr, double decay) {
    const AdamWStep settings = {.lr = lr,
                                .beta1 = static_cast<float>(oracle_.real("beta1")),
                                .beta2 = static_cast<float>(oracle_.real("beta2")),
                                .eps = static_cast<float>(oracle_.real("eps")),
                                .weight_decay = static_cast<float>(decay),
                                .step = step};
    device_->ops().adamw(weights_->flat(range), rounded, m_->flat(range), v_->flat(range),
                         gradients_->flat(range), scalars_, settings, *queue_);
  }

  /// What is rounded from the matrices; empty where the model reads these.
  Tensor half() const { return half_ ? Tensor(*half_) : Tensor{}; }

  FlatParameters parameters() const {
    FlatParameters all = parameters_in(layout_, weights_, gradients_);
    if (half_) all.matrices = half();
    return all;
  }

  TensorBuffer flat_buffer() { return {*device_, DType::f32, {layout_.size()}}; }

  const Oracle& oracle_;
  DType type_;
  GptConfig config_;
  Layout layout_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_ = device_->make_queue();
  TensorBuffer weights_ = flat_buffer(), gradients_ = flat_buffer(), m_ = flat_buffer(), v_ = flat_buffer();
  std::optional<TensorBuffer> half_ =
      type_ == DType::f32 ? std::nullopt
                          : std::optional<TensorBuffer>(std::in_place, *device_, type_,
                                                        std::initializer_list{layout_.matrices().size()});
  TensorBuffer sums_{*device_, DType::f64, {layout_.size() / Layout::block}};
  TensorBuffer scalars_{*device_, DType::f64, {static_cast<int64_t>(StepScalar::count)}};
  TensorBuffer inputs_{*device_, DType::i32, {sequences(), config_.context}};
  TensorBuffer targets_{*device_, DType::i32, {sequences(), config_.context}};
  struct Silent : SectionListener {
    void before_use(int64_t) override {}
    void after_gradients(int64_t) override {}
  };
  Silent silent_;
  Gpt gpt_{config_, *device_, sequences(), parameters()};
};

}  // namespace gpt::test
