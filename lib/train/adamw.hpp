#pragma once

#include "device/device.hpp"
#include "model/layout.hpp"
#include "train/device_state.hpp"
#include "train/options.hpp"
#include "train/owned_parts.hpp"
#include "train/packed_parts.hpp"
#include "train/weights.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// AdamW over the ranges of the Layout that this rank updates; decay on matrices only.
class AdamW {
public:
  /// Keeps references to the first three.
  AdamW(const Layout& layout, Device& device, const Weights& weights, Tensor gradients,
        const TrainOptions& options, const OwnedParts& owned);

  /// Updates `ranges` of the weights from the gradients, each all matrices or all vectors, within one that
  /// this rank updates; nothing happens when `scalars` says that they are not finite. @param step  from 0
  void step(int64_t step, double learning_rate, Tensor scalars, const std::vector<Range>& ranges,
            Queue& queue);

  /// State tensors by the names under which checkpoints hold them: "m", "v".
  std::vector<DeviceState> state() const;
  int64_t state_bytes() const { return m_->bytes() + v_->bytes(); }

private:
  DeviceState state_of(std::string name, Tensor tensor) const;

  const Layout& layout_;
  Ops& ops_;
  const Weights& weights_;
  Tensor gradients_;
  PackedParts parts_;  // of both moments
  bool sharded_;
  TensorBuffer m_, v_;
  AdamWStep rates_;
};

}  // namespace gpt
