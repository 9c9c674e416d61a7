#pragma once

#include "device/device.hpp"

#include <cuda_runtime.h>
#include <string>

namespace gpt {

/// The stream behind a queue that a CUDA device made: libraries that bring their own device code put it
/// there.
cudaStream_t stream_of(Queue& queue);

/// Index of a device that make_cuda_device made, among those that this process sees.
int cuda_index(const Device& device);

/// The calling thread's CUDA calls go to that device from now on: CUDA remembers it for each thread apart.
void use_cuda_device(int index);

/// "13.0": CUDA's runtime as loaded.
std::string cuda_runtime_version();

}  // namespace gpt
