#pragma once

#include "device/device.hpp"
#include "model/config.hpp"
#include "model/layout.hpp"
#include "model/recompute.hpp"

#include <cstdint>
#include <memory>

namespace gpt {

/// Hears when a section of the Layout is used and when its gradients are complete for this micro-batch. This
/// one does nothing.
class SectionListener {
public:
  virtual ~SectionListener() = default;
  virtual void before_use(int64_t /*section*/) {}
  virtual void after_gradients(int64_t /*section*/) {}
};

/// What a model reads and writes, over one Layout, in the device's memory.
struct FlatParameters {
  Tensor matrices;   ///< elements Layout::matrices(), f32 or bf16
  Tensor vectors;    ///< elements Layout::vectors(), f32
  Tensor gradients;  ///< of all elements, f32; empty when the model is only evaluated
};

/// All of it in f32. @param weights  of all elements
FlatParameters parameters_in(const Layout& layout, Tensor weights, Tensor gradients);

/// Sequences on the device. T is the model's context, no less: pad a shorter sequence behind its end, which
/// changes nothing of the positions before.
struct Batch {
  Tensor inputs;               ///< (B,T) i32, up to max_sequences of the model
  Tensor targets;              ///< (B,T) i32, one token ahead
  int64_t first_sequence = 0;  ///< index of the first in the global batch: dropout draws from it
};

/// How one micro-batch contributes to the step.
struct MicroStep {
  float scale = 1.0F;              ///< of the loss in the gradients: 1 / tokens of the global batch
  Write write = Write::overwrite;  ///< first micro-batch of a step: overwrite; the others: accumulate
  uint64_t dropout_seed = 0;
  uint32_t step = 0;
};

/// Forward and backward of a GPT over flat buffers; owns activations for `max_sequences` sequences, which
/// have the dtype of `parameters.matrices`. Knows no ranks and no backend. Whatever takes a Batch throws
/// Error for one of another shape.
class Gpt {
public:
  /// @param recompute  changes memory and time, no bits
  /// @throws Error if activations do not fit into memory
  Gpt(const GptConfig& config, Device& device, int64_t max_sequences, const FlatParameters& parameters,
      Recompute recompute = Recompute::none);
  ~Gpt();

  /// Bytes of activations that such a model owns.
  int64_t activation_bytes() const;

  /// Adds the summed loss of the batch to `loss_sum` (f64, 1) and puts its gradients, times micro.scale, into
  /// the flat gradients. `listener` hears of gradients in the order in which they finish
  /// (Layout::backward_order).
  void train(const Batch& batch, Tensor loss_sum, const MicroStep& micro, SectionListener& listener, Queue&);

  /// Adds the summed loss of the batch, without dropout.
  void evaluate(const Batch& batch, Tensor loss_sum, SectionListener& listener, Queue&);

  /// out (B, T, padded vocabulary), the dtype of activations: logits of the batch, without dropout.
  void logits(Tensor out, const Batch& batch, Queue&);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Initial weights (Radford et al. 2019, sec. 2.3): normal(0, 0.02), those that end a residual branch scaled
/// by 1/√(2·layers), norms 1, biases 0. A pure function of (config, seed). `weights` is zeroed host memory,
/// flat f32.
void initialize_weights(const Layout& layout, const GptConfig& config, uint64_t seed, Tensor weights);

}  // namespace gpt
