#pragma once

#include "base/bfloat16.hpp"
#include "base/integers.hpp"
#include "device/cuda/head_shape.hpp"

#include <cstdint>
#include <cuda_runtime.h>

namespace gpt {

/// apart (parts, range, T, D) = the heads [range) of `together` (B, T, parts, H, D)
void take_heads_apart(float* apart, const float* together, const HeadShape& shape, Range range, int64_t parts,
                      cudaStream_t stream);
void take_heads_apart(bfloat16* apart, const bfloat16* together, const HeadShape& shape, Range range,
                      int64_t parts, cudaStream_t stream);

/// The same the other way.
void put_heads_together(float* together, const float* apart, const HeadShape& shape, Range range,
                        int64_t parts, cudaStream_t stream);
void put_heads_together(bfloat16* together, const bfloat16* apart, const HeadShape& shape, Range range,
                        int64_t parts, cudaStream_t stream);

}  // namespace gpt
