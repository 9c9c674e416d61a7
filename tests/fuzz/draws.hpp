#pragma once

#include "base/philox.hpp"

#include <cstdint>

namespace gpt::fuzz {

/// Random numbers of one case: seed and number say all of them, so that a case is found again.
class Draws {
public:
  Draws(uint64_t seed, uint64_t number) : seed_(seed), number_(number) {}

  uint64_t next() { return random_bits(seed_, number_, count_++); }
  /// 0 to `end` - 1. @param end  above 0
  uint64_t below(uint64_t end) { return next() % end; }

private:
  uint64_t seed_;
  uint64_t number_;
  uint64_t count_ = 0;
};

}  // namespace gpt::fuzz
