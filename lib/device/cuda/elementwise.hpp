#pragma once

#include "device/tensor.hpp"

#include <cstdint>
#include <cuda_runtime.h>

namespace gpt {

/// y = gelu(x), tanh form. One size and type, f32 or bf16; y may be x.
void gelu(Tensor y, Tensor x, cudaStream_t stream);

/// d *= gelu'(x)
void multiply_by_gelu_slope(Tensor d, Tensor x, cudaStream_t stream);

/// y += b in every row.  y (rows,columns) f32 or bf16; b (columns) f32
void add_to_rows(Tensor y, Tensor b, cudaStream_t stream);

/// dst = src, rounded or widened: f32 and bf16.
void convert(Tensor dst, Tensor src, cudaStream_t stream);

/// y += x, f32
void add_to(Tensor y, Tensor x, cudaStream_t stream);

}  // namespace gpt
