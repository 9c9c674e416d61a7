#pragma once

#include "device/device.hpp"
#include "model/layout.hpp"
#include "model/matrix_weights.hpp"
#include "train/device_state.hpp"
#include "train/options.hpp"
#include "train/owned_parts.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// AdamW over the ranges of the Layout that this rank updates; decay on matrices only.
class AdamW {
public:
  /// State for all elements.
  AdamW(const Layout& layout, Device& device, const MatrixWeights& weights, Tensor gradients,
        const TrainOptions& options);
  /// State only for what this rank updates.
  AdamW(const Layout& layout, Device& device, const MatrixWeights& weights, Tensor gradients,
        const TrainOptions& options, const OwnedParts& owned);

  /// Updates `ranges` of the parameters, and of their copy, from the gradients, each within one that this
  /// rank updates; nothing happens when `scalars` says that they are not finite. @param step  from 0
  void step(int64_t step, double learning_rate, Tensor scalars, const std::vector<Range>& ranges,
            Queue& queue);

  /// State tensors by the names under which checkpoints hold them: "m", "v".
  std::vector<DeviceState> state() const;
  int64_t state_bytes() const { return m_->bytes() + v_->bytes(); }

private:
  /// A range that this rank updates, and where its state begins in m_ and v_.
  struct Part {
    Range elements;
    int64_t offset = 0;
  };
  DeviceState state_of(std::string name, Tensor tensor) const;

  const Layout& layout_;
  Ops& ops_;
  Tensor params_, copy_, gradients_;  // copy_: bf16, or empty
  std::vector<Part> parts_;
  bool sharded_;
  TensorBuffer m_, v_;
  AdamWStep rates_;
};

}  // namespace gpt
