#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/adamw.hpp"
#include "train/flat_buffers.hpp"
#include "train/gradient_tree.hpp"
#include "train/reducer.hpp"
#include "train/step_scalars.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace gpt {

struct StepSettings {
  GptConfig model{};
  int64_t micro_batch = 1;  ///< sequences at a time, at most
  int64_t tokens = 1;       ///< of the global batch: gradients are those of the mean loss over them
  Recompute recompute = Recompute::none;
  uint64_t dropout_seed = 0;
  double clip = 1.0;       ///< largest norm of the gradients; 0: no clipping
  AdamWStep optimizer{};   ///< as adamw_rates
  Range leaves{};          ///< this rank's, where the Comm sums along a tree over them; empty: it does not
  int64_t all_leaves = 0;  ///< of the global batch
};

/// What trains, on one rank: the model over its flat buffers, the sums over ranks, the optimizer.
///
///     backward(batch, step, listener);
///     finish();
///     update(step, learning_rate);
///
/// Steps count from 0.
class TrainingStep {
public:
  /// Keeps references to all but the first and the last.
  /// @throws Error if activations, optimizer state or the tree's sums do not fit into memory
  TrainingStep(const StepSettings& settings, const Layout& layout, Device& device, Comm& comm, Queue& queue,
               FlatBuffers buffers);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// What models read follows the weights as they are, here and on the other ranks: once, before the first
  /// step. Collective. @param step  updates that made them, 0 for initial ones: they are rounded as the last
  /// of these rounded them
  void spread_weights(int64_t step);

  /// Forward and backward of this rank's sequences, in micro-batches. `listener` passes on to reducer() what
  /// it hears, before_use at once, after_gradients of the last micro-batch until finish().
  void backward(const Batch& batch, int64_t step, SectionListener& listener);

  /// Sums loss and gradients over the ranks, and leaves their norm, the clip scale and whether the optimizer
  /// may take the step in the scalars. @param limits  but for clip
  void finish(StepLimits limits = {});

  /// Updates weights and starts to spread them; the scalars are on their way to the host, as those of step
  /// + 1.
  void update(int64_t step, double learning_rate);

  Gpt& model() { return model_; }
  Reducer& reducer() { return reducer_; }
  const Reducer& reducer() const { return reducer_; }
  StepScalars& scalars() { return scalars_; }
  const Weights& weights() const { return buffers_.weights; }
  const AdamW& optimizer() const { return optimizer_; }

  /// All that a checkpoint holds: weights, then the optimizer's.
  std::vector<DeviceState> state() const;

  Tensor gradients() const { return buffers_.gradients; }
  int64_t gradient_bytes() const { return buffers_.gradients->bytes(); }
  int64_t tree_bytes() const { return tree_ ? tree_->bytes() : 0; }

private:
  StepSettings settings_;
  Queue& queue_;
  FlatBuffers buffers_;
  std::optional<GradientTree> tree_;
  Gpt model_;
  Reducer reducer_;
  AdamW optimizer_;
  StepScalars scalars_;
};

}  // namespace gpt
