#include "turn.hpp"

#include "random.hpp"
#include "settings.hpp"

#include <bit>
#include <numeric>

namespace standin {
namespace {

Random& random() {
  static Random generator(settings().seed);
  return generator;
}

Order order = Order::forward;  // of the grid that runs
uint64_t block_step = 1;
uint64_t block_offset = 0;

/// One of the bits of a mask that is not empty.
unsigned choose(unsigned mask) {
  switch (settings().order) {
    case Order::forward:
      return unsigned(std::countr_zero(mask));
    case Order::reverse:
      return 31 - unsigned(std::countl_zero(mask));
    case Order::shuffle:
      break;
  }
  for (uint64_t skip = random().below(unsigned(std::popcount(mask))); skip > 0; --skip) mask &= mask - 1;
  return unsigned(std::countr_zero(mask));
}

}  // namespace

void choose_warp() { block.current_warp = choose(block.runnable); }

unsigned next_thread() {
  if ((block.runnable >> block.current_warp & 1) == 0) {
    if (block.runnable == 0) return kNoThread;
    choose_warp();
  }
  const Warp& warp = block.warps[block.current_warp];
  return block.current_warp * 32 + choose(warp.ready | warp.unstarted);
}

void take(Warp& warp, unsigned lane) {
  warp.ready &= ~(1u << lane);
  warp.unstarted &= ~(1u << lane);
  if ((warp.ready | warp.unstarted) == 0) block.runnable &= ~(1u << (&warp - block.warps));
}

void begin_grid(uint64_t blocks) {
  order = settings().order;
  if (order != Order::shuffle) return;
  block_offset = random().below(blocks);
  do block_step = random().below(blocks) + 1;
  while (std::gcd(block_step, blocks) != 1);
}

uint64_t block_at(uint64_t position, uint64_t count) {
  switch (settings().order) {
    case Order::forward:
      return position;
    case Order::reverse:
      return count - 1 - position;
    case Order::shuffle:
      break;
  }
  return (position * block_step + block_offset) % count;
}

}  // namespace standin
