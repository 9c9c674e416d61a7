#pragma once

#include "device/tensor.hpp"

namespace gpt {

/// dst = src, from f32 to bf16 (rounded) or from bf16 to f32, on so many threads.
void convert(Tensor dst, Tensor src, int threads);

}  // namespace gpt
