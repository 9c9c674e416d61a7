#pragma once

#include "device/device.hpp"
#include "model/config.hpp"
#include "model/recompute.hpp"

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace gpt {

/// What one block's backward reads. B sequences, T positions, C width, H heads.
struct BlockActivations {
  Tensor input;                   // (B,T,C) f32: residual stream before the first norm
  Tensor normed1, mean1, rstd1;   // (B,T,C) (B·T) (B·T)
  Tensor qkv;                     // (B,T,3C)
  Tensor log_sum;                 // (B,H,T)
  Tensor attended;                // (B,T,C)
  Tensor middle;                  // (B,T,C) f32: residual stream before the second norm
  Tensor normed2, mean2, rstd2;   // (B,T,C) (B·T) (B·T)
  Tensor expanded_pre, expanded;  // (B,T,4C) before and after the activation
};

/// Activations of a whole model for up to `sequences` sequences: parts of one buffer. Each in one of its own
/// would end in small pages, and writing to these takes several times as long as to huge ones.
struct Activations {
  /// @param backward  false: nothing is kept for a backward, and there are no gradients
  Activations(const GptConfig& config, Allocator& allocator, int64_t sequences, DType dtype,
              Recompute recompute, bool backward);

  /// What a block does not keep is the same memory in all blocks: that of the block computed last.
  std::vector<BlockActivations> blocks;
  Tensor branch;              // (B,T,C): what a block's branch adds to the residual stream
  Tensor output;              // (B,T,C) f32: residual stream before the final norm
  Tensor normed, mean, rstd;  // (B,T,C) (B·T) (B·T)

  // Gradients, only with `backward`; one of each serves all blocks.
  Tensor d_residual;  // (B,T,C) f32
  Tensor d_branch;    // (B,T,C)
  Tensor d_normed;    // (B,T,C)
  Tensor d_qkv;       // (B,T,3C)
  Tensor d_expanded;  // (B,T,4C); the memory of a shared `expanded`, which is read before this is written
  Tensor d_attended;  // (B,T,C)

  int64_t bytes() const { return buffer_.bytes(); }

private:
  class Cutter;
  Activations(const GptConfig& config, int64_t sequences, DType dtype, Recompute recompute, bool backward,
              Cutter cutter);
  friend int64_t activation_bytes(const GptConfig&, int64_t, DType, Recompute, bool);

  Buffer buffer_;
};

/// The bytes that such activations take, without taking them.
int64_t activation_bytes(const GptConfig& config, int64_t sequences, DType dtype, Recompute recompute,
                         bool backward);

}  // namespace gpt
