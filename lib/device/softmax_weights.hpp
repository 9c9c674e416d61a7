#pragma once

#include <cstdint>

namespace gpt {

/// y[i] = e^((x[i] − largest x)·factor), nothing below 1e-38; host memory, on the calling thread.
/// Returns the sum of y, which is right to about 1e-6. size, factor > 0
double softmax_weights(float* y, const float* x, int64_t size, float factor);

}  // namespace gpt
