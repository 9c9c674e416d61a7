#pragma once

#include <algorithm>
#include <cstdint>

namespace gpt {

/// Warps of a block that each need so many bytes of shared memory: as many as a block has without asking for
/// more, one at least.
constexpr int warps_for(int64_t bytes_a_warp) {
  constexpr int64_t without_asking = 48 << 10, most = 8;
  return static_cast<int>(std::clamp(without_asking / bytes_a_warp, int64_t{1}, most));
}

}  // namespace gpt
