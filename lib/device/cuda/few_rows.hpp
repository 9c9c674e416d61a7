#pragma once

#include "device/ops.hpp"

#include <cuda_runtime.h>

namespace gpt {

/// Ops::linear of few_rows rows at most, whose time is that of reading w: each row has the same bits whatever
/// the others are.
void linear_of_few_rows(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, cudaStream_t stream);

}  // namespace gpt
