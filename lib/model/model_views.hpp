#pragma once

#include "device/tensor.hpp"
#include "model/layout.hpp"

#include <vector>

namespace gpt {

/// Tensors of one transformer block inside flat buffers; biases are empty in a model without them.
struct BlockViews {
  Tensor norm1_weight, norm1_bias;          // (C)
  Tensor qkv_weight, qkv_bias;              // (3C,C) (3C)
  Tensor attention_weight, attention_bias;  // (C,C) (C)
  Tensor norm2_weight, norm2_bias;          // (C)
  Tensor expand_weight, expand_bias;        // (4C,C) (4C)
  Tensor shrink_weight, shrink_bias;        // (C,4C) (C)
};

/// All tensors of a model inside flat buffers.
struct ModelViews {
  std::vector<BlockViews> blocks;
  Tensor norm_weight, norm_bias;  // (C)
  Tensor embedding;               // (padded vocabulary, C)
  Tensor positions;               // (context, C)
};

/// @param matrices  elements layout.matrices(), of any dtype
/// @param vectors   elements layout.vectors(), f32
ModelViews make_views(const Layout& layout, const GptConfig& config, Tensor matrices, Tensor vectors);

}  // namespace gpt
