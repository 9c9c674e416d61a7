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

/// What a run chose: all but lr and step, and what of the rounding follows from the step and the range.
AdamWStep adamw_rates(const TrainOptions& options);

/// AdamW over the ranges of the Layout that this rank updates; decay on matrices only.
class AdamW {
public:
  /// Flat tensors of state beside the weights: both moments.
  static constexpr int64_t states = 2;

  /// Keeps references to the first three. @param rates  lr and step are those of each step, also in the
  /// rounding
  AdamW(const Layout& layout, Device& device, const Weights& weights, Tensor gradients,
        const AdamWStep& rates, const OwnedParts& owned);

  /// Updates `ranges` of the weights from the gradients, each all matrices or all vectors, within one that
  /// this rank updates; nothing happens when `scalars` says that they are not finite. @param step  from 0
  void step(int64_t step, double learning_rate, Tensor scalars, const std::vector<Range>& ranges,
            Queue& queue);

  /// `states` tensors by the names under which checkpoints hold them: "m", "v".
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
