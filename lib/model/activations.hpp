#pragma once

#include "device/device.hpp"
#include "model/config.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// What one block's forward keeps for its backward. B sequences, T positions, C width, H heads.
struct BlockActivations {
  TensorBuffer input;                   // (B,T,C) f32: residual stream before the first norm
  TensorBuffer normed1, mean1, rstd1;   // (B,T,C) (B·T) (B·T)
  TensorBuffer qkv;                     // (B,T,3C)
  TensorBuffer log_sum;                 // (B,H,T)
  TensorBuffer attended;                // (B,T,C)
  TensorBuffer middle;                  // (B,T,C) f32: residual stream before the second norm
  TensorBuffer normed2, mean2, rstd2;   // (B,T,C) (B·T) (B·T)
  TensorBuffer expanded_pre, expanded;  // (B,T,4C) before and after the activation
};

/// Activations of a whole model for up to `sequences` sequences.
struct Activations {
  Activations(const GptConfig& config, Device& device, int64_t sequences, DType dtype, bool backward);

  std::vector<BlockActivations> blocks;
  TensorBuffer branch;              // (B,T,C): what a block's branch adds to the residual stream
  TensorBuffer output;              // (B,T,C) f32: residual stream before the final norm
  TensorBuffer normed, mean, rstd;  // (B,T,C) (B·T) (B·T)

  // Gradients, only with `backward`; one of each serves all blocks.
  TensorBuffer d_residual;  // (B,T,C) f32
  TensorBuffer d_branch;    // (B,T,C)
  TensorBuffer d_normed;    // (B,T,C)
  TensorBuffer d_qkv;       // (B,T,3C)
  TensorBuffer d_expanded;  // (B,T,4C)
  TensorBuffer d_attended;  // (B,T,C)

  int64_t bytes = 0;
};

}  // namespace gpt
