#pragma once

#include "fuzz/draws.hpp"

#include <cstdint>
#include <string>

namespace gpt::fuzz {

/// A number that readers stumble over: 0, 1, -1, borders of types, and those of a file of `size` bytes.
uint64_t notable_number(uint64_t size, Draws& draws);

/// A few changes of a file: of single bits, bytes and numbers, of pieces (copied, swapped, cut out, put in,
/// blanked), of its length, and of what looks like the addresses by which its parts refer to each other.
std::string mutate(std::string bytes, Draws& draws);

}  // namespace gpt::fuzz
