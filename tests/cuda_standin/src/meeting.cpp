// Where threads of a block meet: barriers and operations of a warp.
#include "block.hpp"
#include "failure.hpp"

#include <bit>
#include <cstring>

namespace standin {
namespace {

/// The warp's mask without lanes beyond the end of the block; a full mask may name those.
unsigned existing_lanes(unsigned mask, unsigned thread) {
  const unsigned lanes = block.threads - (thread & ~31u);
  if (lanes >= 32) return mask;
  const unsigned existing = (1u << lanes) - 1;
  if (mask != ~0u && (mask & ~existing))
    fail("warp mask {:08x} names lanes that do not exist{}", mask, place());
  return mask & existing;
}

void check_meeting(const Warp& warp, WarpOperation operation, unsigned mask, unsigned lane) {
  if ((mask >> lane & 1) == 0) fail("the calling lane is not in the warp mask {:08x}{}", mask, place());
  if (mask & warp.exited) fail("warp mask {:08x} names lanes that have returned{}", mask, place());
  if (warp.arrived && (warp.mask != mask || warp.operation != operation))
    fail("lanes of a warp meet in different operations or with different masks{}", place());
}

/// Whether the barrier at which threads wait stands there. Files mostly have one address each.
bool is_same_place(const char* file, int line) {
  return block.barrier_line == line &&
         (block.barrier_file == file || std::strcmp(block.barrier_file, file) == 0);
}

/// Calls `each` with every lane of a mask.
template <class Each>
void for_lanes(unsigned mask, Each each) {
  for (; mask != 0; mask &= mask - 1) each(unsigned(std::countr_zero(mask)));
}

void finish_meeting(Warp& warp) {
  const unsigned mask = warp.mask;
  if (warp.operation == WarpOperation::shuffle) {
    for_lanes(mask, [&](unsigned lane) {
      const int source = warp.source[lane];
      if ((mask >> source & 1) == 0)
        fail("a shuffle reads lane {}, which is not in mask {:08x}{}", source, mask, place());
      warp.result[lane] = warp.value[source];
    });
  } else {
    uint64_t votes = 0;
    for_lanes(mask, [&](unsigned lane) { votes |= (warp.value[lane] & 1) << lane; });
    for_lanes(mask, [&](unsigned lane) { warp.result[lane] = votes; });
  }
}

}  // namespace

int block_barrier(bool predicate, const char* file, int line) {
  if (block.exited > 0)
    fail("the barrier of {}:{} comes after a thread of the block returned{}", file, line, place());
  if (block.at_barrier > 0 && !is_same_place(file, line))
    fail("threads wait at different barriers: {}:{} and {}:{}{}", block.barrier_file, block.barrier_line,
         file, line, place());
  block.barrier_file = file;
  block.barrier_line = line;
  block.barrier_votes += predicate;
  if (++block.at_barrier == block.threads) {
    for (unsigned i = 0; i < block.warp_count; ++i) {
      wake(block.warps[i], block.warps[i].at_barrier);
      block.warps[i].at_barrier = 0;
    }
    block.barrier_result = block.barrier_votes;
    block.at_barrier = block.barrier_votes = 0;
  } else {
    const unsigned thread = current_fiber->thread;
    block.warps[thread / 32].at_barrier |= 1u << (thread % 32);
    wait_for_others();
  }
  return int(block.barrier_result);
}

uint64_t warp_exchange(WarpOperation operation, unsigned mask, uint64_t value, int source) {
  const unsigned thread = current_fiber->thread, lane = thread % 32;
  Warp& warp = block.warps[thread / 32];
  mask = existing_lanes(mask, thread);
  check_meeting(warp, operation, mask, lane);
  warp.mask = mask;
  warp.operation = operation;
  warp.value[lane] = value;
  warp.source[lane] = source;
  warp.arrived |= 1u << lane;
  if (warp.arrived == mask) {
    finish_meeting(warp);
    warp.arrived = 0;
    wake(warp, mask & ~(1u << lane));
  } else {
    wait_for_others();
  }
  return warp.result[lane];
}

}  // namespace standin
