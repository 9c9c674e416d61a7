#pragma once

#include <cstdint>

namespace gpt {

/// Standard normal deviate for (`key`, `a`, `b`): Box and Muller (1958) on two halves of one Philox block.
double random_normal(uint64_t key, uint64_t a, uint64_t b = 0);

}  // namespace gpt
