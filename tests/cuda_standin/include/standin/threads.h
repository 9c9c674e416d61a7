// A thread's place in its block and grid, and the barrier of the block.
#pragma once

#include <standin/vector_types.h>

// Plain globals and not macros: cudaLaunchConfig_t has members called gridDim and blockDim.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace standin {

/// Waits until all threads of the block are at the same barrier.
/// @param file, line  where it stands; threads that wait at different ones end the program
/// @returns how many threads came with `predicate`
int block_barrier(bool predicate, const char* file, int line);

}  // namespace standin

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  standin::block_barrier(false, file, line);
}
inline int __syncthreads_count(int predicate, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
  return standin::block_barrier(predicate != 0, file, line);
}
inline int __syncthreads_or(int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return standin::block_barrier(predicate != 0, file, line) != 0;
}
inline int __syncthreads_and(int predicate, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
  return standin::block_barrier(predicate == 0, file, line) == 0;
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
