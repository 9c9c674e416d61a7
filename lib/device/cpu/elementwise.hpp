#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>

namespace gpt {

/// Elements that one thread takes at least: for fewer, waking another costs more than it brings. A multiple
/// of every vector's length.
constexpr int64_t elementwise_grain = 4096;

/// y = gelu(x), tanh form
void gelu(float* y, const float* x, int64_t size);
void gelu(bfloat16* y, const bfloat16* x, int64_t size);

/// d *= gelu'(x)
void multiply_by_gelu_slope(float* d, const float* x, int64_t size);
void multiply_by_gelu_slope(bfloat16* d, const bfloat16* x, int64_t size);

/// y += x
void add_to(float* y, const float* x, int64_t size);

void round_to_bfloat16(bfloat16* y, const float* x, int64_t size);
void widen_bfloat16(float* y, const bfloat16* x, int64_t size);

}  // namespace gpt
