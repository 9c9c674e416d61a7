#pragma once

#include "base/integers.hpp"
#include "device/cuda/check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <utility>

namespace gpt {

constexpr int warp_lanes = 32;

struct Grid {
  int64_t blocks = 1;
  int threads = 256;  ///< a block
  size_t shared_bytes = 0;
};

/// Blocks for a loop over `items` that goes on by the whole grid's threads: enough to fill any GPU.
constexpr Grid grid_over(int64_t items, int threads = 256) {
  constexpr int64_t most = 8192;
  return {.blocks = std::clamp(ceil_div(items, threads), int64_t{1}, most), .threads = threads};
}

/// The only way in which kernels are started.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream, Arguments&&... arguments) {
  constexpr size_t without_asking = 48 << 10;
  if (grid.shared_bytes > without_asking)
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(grid.shared_bytes)));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

/// The block's dynamic shared memory. The one place where the backend knows that it may run on the stand-in
/// of tests, where `extern __shared__` has no meaning.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef GPT_CUDA_STANDIN
  return static_cast<T*>(standin::dynamic_shared());
#else
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#endif
}

/// Index of this thread in the grid, and how many threads the grid has.
__device__ __forceinline__ int64_t grid_thread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64_t grid_threads() { return int64_t{gridDim.x} * blockDim.x; }

__device__ __forceinline__ int warp_lane() { return static_cast<int>(threadIdx.x) % warp_lanes; }
__device__ __forceinline__ int warp_in_block() { return static_cast<int>(threadIdx.x) / warp_lanes; }
__device__ __forceinline__ int warps_in_block() { return static_cast<int>(blockDim.x) / warp_lanes; }

}  // namespace gpt
