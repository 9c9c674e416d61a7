#pragma once

#include "device/device.hpp"
#include "model/layout.hpp"
#include "train/host_copies.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// AdamW over the ranges of the Layout that this rank updates; decay on matrices only.
class AdamW {
public:
  AdamW(const Layout& layout, Device& device, Tensor params, Tensor gradients, const TrainOptions& options);

  /// Updates `ranges` of the parameters from the gradients; nothing happens when `scalars` says that they are
  /// not finite. @param step  from 0
  void step(int64_t step, double learning_rate, Tensor scalars, const std::vector<Range>& ranges,
            Queue& queue);

  /// State tensors by the names under which checkpoints hold them: "m", "v".
  std::vector<NamedTensor> state() const;

private:
  const Layout& layout_;
  Ops& ops_;
  Tensor params_, gradients_;
  TensorBuffer m_, v_;
  AdamWStep rates_;
};

}  // namespace gpt
