#pragma once

#include "device/cuda/handles.hpp"
#include "device/cuda/memory.hpp"

#include <cstdint>
#include <deque>

namespace gpt {

/// Pinned memory through which small copies between ordinary host memory and a stream go, so that the host
/// does not wait for the stream: CUDA's own copies from pageable memory wait for it beyond 64 KiB, and those
/// into it always.
class Staging {
public:
  struct Slot {
    CudaMemory memory;
    CudaEventHandle used;  ///< recorded behind the last copy that goes through it
  };

  /// Above that CUDA copies by itself, and may wait: no step has such copies.
  static constexpr int64_t largest = int64_t{4} << 20;

  /// A slot of that size or larger that no copy uses any more.
  Slot& take(int64_t bytes);

private:
  std::deque<Slot> slots_;  // references stay valid as it grows
};

}  // namespace gpt
