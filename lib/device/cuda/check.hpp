#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <source_location>

namespace gpt {

/// @throws Error with CUDA's own name and text of the failure, and the caller's line
void check_cuda(cudaError_t status, const std::source_location& where = std::source_location::current());

/// The same for cuBLASLt, which has names only.
void check_cublas(cublasStatus_t status, const std::source_location& where = std::source_location::current());

}  // namespace gpt
