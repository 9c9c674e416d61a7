#pragma once

#include "bench/operator_bounds.hpp"
#include "device/cuda_device.hpp"

namespace gpt {

/// What a GPU can do at best. Memory: as fast as copies inside it go. Products: as NVIDIA documents them;
/// where that is not known here, as fast as a large square one goes. Takes up to 1 GiB of its memory
/// meanwhile.
struct GpuLimits {
  Peaks peaks;
  bool documented = false;  ///< the peaks of products
};
GpuLimits limits_of(const CudaDeviceInfo& gpu);

}  // namespace gpt
