#pragma once

#include "device/cpu_scratch.hpp"
#include "device/cuda_device.hpp"

#include <cstdint>

namespace gpt {

/// Bytes of a GPU's memory that operations take beside the tensors that they are given, in a step of such
/// sizes on one queue: the largest that any of them needs, and cuBLASLt's workspace.
int64_t cuda_scratch_bytes(const ScratchShape& shape, const CudaOptions& options = {});

}  // namespace gpt
