#pragma once

#include <cstdint>

namespace standin {

/// Xorshift (Marsaglia 2003): repeatable from GPT_CUDA_STANDIN_SEED, and cheap.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u | 1) {}

  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  /// A number below `count`, which is not 0.
  uint64_t below(uint64_t count) { return (next() >> 11) % count; }

private:
  uint64_t state_;
};

}  // namespace standin
