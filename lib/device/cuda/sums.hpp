#pragma once

#include <cstdint>
#include <cuda_runtime.h>

namespace gpt {

/// *sum += Σ terms, by one block in an order that follows from `count` alone.
void add_sum(double* sum, const double* terms, int64_t count, cudaStream_t stream);

}  // namespace gpt
