#pragma once

#include "device/cuda/fused_attention.hpp"

#include <memory>

namespace gpt {

/// cuDNN's, on the calling thread's device. Takes cudnn_attention_bytes of a queue's scratch at most.
/// @throws Error if this build has none
std::unique_ptr<FusedAttention> make_cudnn_attention();

}  // namespace gpt
