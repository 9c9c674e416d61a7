#pragma once

#include "fiber.hpp"

#include <cstdint>
#include <cuda_runtime.h>
#include <string>

namespace standin {

/// A warp of the block that runs. Sets of lanes are bit masks.
struct Warp {
  unsigned unstarted = 0;
  unsigned ready = 0;  ///< waited, and may go on
  unsigned at_barrier = 0;
  unsigned exited = 0;

  unsigned arrived = 0;  ///< at the operation of the warp that is going on, of the lanes of `mask`
  unsigned mask = 0;
  WarpOperation operation{};
  Fiber* fiber[32];
  uint64_t value[32];
  uint64_t result[32];
  int source[32];
};

/// The block that runs. There is one at a time.
struct Block {
  unsigned threads = 0;
  unsigned warp_count = 0;
  unsigned live = 0;      ///< threads that have not exited
  unsigned exited = 0;    ///< threads that have
  unsigned runnable = 0;  ///< warps with ready or unstarted lanes
  unsigned current_warp = 0;

  unsigned at_barrier = 0;      ///< threads that wait there
  unsigned barrier_votes = 0;   ///< how many of them came with a predicate that holds
  unsigned barrier_result = 0;  ///< votes of the barrier that was passed last
  const char* barrier_file = nullptr;
  int barrier_line = 0;

  Warp warps[32];
};
extern Block block;

/// Lets other threads of the block run until something makes this one ready.
void wait_for_others();

/// Makes lanes of a warp ready.
inline void wake(Warp& warp, unsigned lanes) {
  warp.ready |= lanes;
  if (warp.ready) block.runnable |= 1u << (&warp - block.warps);
}

/// Where a message is about: " [block (x, y, z), thread (x, y, z)]".
std::string place();

/// Runs all blocks of a grid on this thread; nothing else may run one meanwhile.
void run_grid(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* call);

}  // namespace standin
