#pragma once

#include "base/integers.hpp"

#include <cstddef>
#include <cstdint>

namespace gpt {

/// Divides one piece of scratch memory: areas are named first, and have addresses once it is there.
class ScratchAreas {
public:
  /// Where an area of that size begins, from the start of the whole.
  int64_t add(int64_t bytes) {
    const int64_t begin = total_;
    total_ += round_up(bytes, alignment);
    return begin;
  }
  int64_t total() const { return total_; }

private:
  static constexpr int64_t alignment = 256;
  int64_t total_ = 0;
};

}  // namespace gpt
