// What nvcc knows as keywords, for a plain C++ compiler.
#pragma once

#define __global__
#define __device__
#define __host__
// Constant memory is read as any other static data.
#define __constant__ static
// One block runs at a time, so static storage is the block's storage.
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
