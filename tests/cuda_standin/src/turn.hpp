#pragma once

#include "block.hpp"

#include <cstdint>

namespace standin {

inline constexpr unsigned kNoThread = ~0u;

/// The thread to run next, or kNoThread. Stays with one warp as long as it can, so that warps run as far
/// apart as barriers allow: a missing barrier then shows.
unsigned next_thread();

/// Takes a lane off those that can run.
void take(Warp& warp, unsigned lane);

/// Number in the grid of the `position`-th block to run of `count`.
uint64_t block_at(uint64_t position, uint64_t count);

/// Prepares the order of the blocks of a grid.
void begin_grid(uint64_t blocks);

/// The warp with which a block begins.
void choose_warp();

}  // namespace standin
