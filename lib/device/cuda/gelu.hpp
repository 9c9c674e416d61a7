#pragma once

#include <cuda_runtime.h>

namespace gpt {

/// ½(1 + tanh(u)) = sigmoid(2u), u = √(2/π)(x + 0.044715 x³)
__device__ __forceinline__ float gelu_gate(float x) {
  constexpr float twice_root = 1.5957691216F;  // 2·√(2/π)
  return 1.0F / (1.0F + expf(-x * (twice_root + twice_root * 0.044715F * x * x)));
}

__device__ __forceinline__ float gelu_of(float x) { return x * gelu_gate(x); }

__device__ __forceinline__ float gelu_slope(float x) {
  constexpr float twice_root = 1.5957691216F;
  const float gate = gelu_gate(x);
  return gate + x * gate * (1.0F - gate) * (twice_root + 3.0F * twice_root * 0.044715F * x * x);
}

}  // namespace gpt
