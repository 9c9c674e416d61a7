#pragma once

#include "base/bfloat16.hpp"
#include "device/weight_rounding.hpp"

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

/// out = a + b; out may be either. Both are read side by side, which keeps more of memory busy than one after
/// the other.
void add_arrays(float* out, const float* a, const float* b, int64_t size);
/// y += x
inline void add_to(float* y, const float* x, int64_t size) { add_arrays(y, y, x, size); }

void round_to_bfloat16(bfloat16* y, const float* x, int64_t size);
/// @param rounding  stochastic
void round_stochastically(bfloat16* y, const float* x, int64_t size, const WeightRounding& rounding);
void widen_bfloat16(float* y, const bfloat16* x, int64_t size);

}  // namespace gpt
