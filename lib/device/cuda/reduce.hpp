#pragma once

#include "device/cuda/launch.hpp"

#include <cuda_runtime.h>

/// Reductions in a fixed order, so that the same input gives the same bits.
namespace gpt {

constexpr unsigned all_lanes = 0xFFFFFFFFU;

/// Σ over the lanes of a warp, on every lane; all lanes must take part.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(all_lanes, value, distance);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}

/// Σ over the block, on every thread: warps in order. `partial` is shared memory for a value of each warp;
/// it may be used again at once. All threads must take part.
template <class T>
__device__ __forceinline__ T block_sum(T value, T* partial) {
  value = warp_sum(value);
  if (warp_lane() == 0) partial[warp_in_block()] = value;
  __syncthreads();
  T total = 0;
  for (int warp = 0; warp < warps_in_block(); ++warp) total += partial[warp];
  __syncthreads();
  return total;
}

__device__ __forceinline__ float block_max(float value, float* partial) {
  value = warp_max(value);
  if (warp_lane() == 0) partial[warp_in_block()] = value;
  __syncthreads();
  float most = partial[0];
  for (int warp = 1; warp < warps_in_block(); ++warp) most = fmaxf(most, partial[warp]);
  __syncthreads();
  return most;
}

}  // namespace gpt
