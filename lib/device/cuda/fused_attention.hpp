#pragma once

#include "device/cuda/head_shape.hpp"
#include "device/tensor.hpp"

#include <cstdint>
#include <string>

namespace gpt {

class CudaQueue;

/// Attention by fused kernels of a library, which never write scores to memory: shapes and meaning are those
/// of Ops::attention and its backward, without dropout. log_sum is the same, so that one pass may be the
/// library's and the other our own. For one calling thread at a time.
class FusedAttention {
public:
  enum class Pass { forward, backward };

  virtual ~FusedAttention() = default;

  /// Why it does not compute such a pass: a reason for people; empty if it does. What a shape needs is made
  /// when it is first asked for, and kept.
  virtual const std::string& refusal(Pass pass, int64_t sequences, const HeadShape& shape) = 0;

  /// Starts a pass that is not refused, of a call that why_own (attention_choice.hpp) has nothing against.
  virtual void forward(Tensor y, Tensor log_sum, Tensor qkv, const HeadShape& shape, CudaQueue&) = 0;
  virtual void backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, const HeadShape& shape,
                        CudaQueue&) = 0;
};

}  // namespace gpt
