#include "block.hpp"

#include "failure.hpp"
#include "turn.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace standin {

Block block;

namespace {

/// The grid that runs.
struct Grid {
  Body body = nullptr;
  void* call = nullptr;
  uint64_t next_block = 0;
  uint64_t blocks = 0;
  std::unique_ptr<void, void (*)(void*)> shared{nullptr, std::free};
  size_t shared_bytes = 0;
};
Grid grid;
bool running = false;
Fiber caller;
unsigned to_start = kNoThread;  // the thread with which a fiber without one begins

void start_block() {
  const uint64_t number = block_at(grid.next_block++, grid.blocks);
  blockIdx = {unsigned(number % gridDim.x), unsigned(number / gridDim.x % gridDim.y),
              unsigned(number / gridDim.x / gridDim.y)};
  block.live = block.threads;
  block.exited = block.at_barrier = block.barrier_votes = 0;
  for (unsigned i = 0; i < block.warp_count; ++i) {
    const unsigned lanes = block.threads - i * 32;
    block.warps[i].unstarted = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    block.warps[i].ready = block.warps[i].at_barrier = block.warps[i].exited = block.warps[i].arrived = 0;
  }
  block.runnable = block.warp_count >= 32 ? ~0u : (1u << block.warp_count) - 1;
  choose_warp();
  // All bits set is NaN in every floating-point type: a read before the first write shows.
  if (grid.shared_bytes > 0) std::memset(grid.shared.get(), 0xff, grid.shared_bytes);
}

void run_thread(Fiber& fiber, unsigned thread) {
  Warp& warp = block.warps[thread / 32];
  const unsigned lane = thread % 32;
  take(warp, lane);
  warp.fiber[lane] = &fiber;
  fiber.thread = thread;
  fiber.thread_index = {thread % blockDim.x, thread / blockDim.x % blockDim.y,
                        thread / blockDim.x / blockDim.y};
  threadIdx = fiber.thread_index;
  grid.body(grid.call);
  warp.exited |= 1u << lane;
  if (warp.arrived && (warp.mask & warp.exited))
    fail("a lane returned while others of its mask wait in an operation of the warp{}", place());
  if (block.at_barrier > 0)
    fail("a thread returned while others wait at the barrier of {}:{}{}", block.barrier_file,
         block.barrier_line, place());
  ++block.exited;
  --block.live;
}

[[noreturn]] void deadlock() {
  fail("deadlock: {} threads of a block wait and none can run{}{}", block.live,
       block.at_barrier > 0 ? fmt::format(", {} of them at the barrier of {}:{}", block.at_barrier,
                                          block.barrier_file, block.barrier_line)
                            : std::string(", in operations of a warp"),
       place());
}

bool unstarted(unsigned thread) { return (block.warps[thread / 32].unstarted >> (thread % 32) & 1) != 0; }

void resume(unsigned thread) {
  Warp& warp = block.warps[thread / 32];
  take(warp, thread % 32);
  switch_to(*warp.fiber[thread % 32]);
}

/// What every fiber does: starts threads until the grid is done. It is left only where its thread waits, so
/// kernels that never wait run on one fiber without any switch.
void run_threads() {
  Fiber& self = *current_fiber;
  for (;;) {
    unsigned thread = std::exchange(to_start, kNoThread);
    if (thread == kNoThread) thread = next_thread();
    if (thread != kNoThread && unstarted(thread)) {
      run_thread(self, thread);
    } else if (thread != kNoThread) {
      release_fiber(self);
      resume(thread);
    } else if (block.live > 0) {
      deadlock();
    } else if (grid.next_block < grid.blocks) {
      start_block();
    } else {
      release_fiber(self);
      switch_to(caller);
    }
  }
}

}  // namespace

void wait_for_others() {
  const unsigned thread = next_thread();
  if (thread == kNoThread) deadlock();
  if (unstarted(thread)) {
    to_start = thread;
    switch_to(take_fiber(run_threads));
  } else {
    resume(thread);
  }
}

std::string place() {
  return fmt::format(" [block ({}, {}, {}), thread ({}, {}, {})]", blockIdx.x, blockIdx.y, blockIdx.z,
                     threadIdx.x, threadIdx.y, threadIdx.z);
}

void* dynamic_shared() { return grid.shared.get(); }

void run_grid(dim3 blocks, dim3 threads, size_t dynamic_shared_bytes, Body body, void* call) {
  if (std::exchange(running, true)) fail("a kernel runs within another{}", place());
  gridDim = blocks;
  blockDim = threads;
  block.threads = threads.x * threads.y * threads.z;
  block.warp_count = (block.threads + 31) / 32;
  grid.body = body;
  grid.call = call;
  grid.next_block = 0;
  grid.blocks = uint64_t{blocks.x} * blocks.y * blocks.z;
  grid.shared_bytes = dynamic_shared_bytes;
  void* shared = nullptr;
  if (dynamic_shared_bytes > 0 && posix_memalign(&shared, 128, dynamic_shared_bytes) != 0)
    fail("no memory for {} bytes of dynamic shared memory", dynamic_shared_bytes);
  grid.shared.reset(shared);
  begin_grid(grid.blocks);
  start_block();
  enter_fibers(caller);
  to_start = next_thread();
  switch_to(take_fiber(run_threads));
  grid.shared.reset();
  running = false;
}

}  // namespace standin
