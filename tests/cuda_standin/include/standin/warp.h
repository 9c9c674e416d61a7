// Operations of the lanes of a warp.
#pragma once

#include <cstdint>
#include <cstring>
#include <standin/threads.h>
#include <type_traits>

namespace standin {

enum class WarpOperation { sync, shuffle, ballot };

/// Meets the other lanes of `mask` in the same operation.
/// @returns for shuffle the `value` of lane `source`, for ballot the mask of lanes that came with value 1
uint64_t warp_exchange(WarpOperation operation, unsigned mask, uint64_t value, int source);

inline int lane() { return int((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32); }

template <class T>
T shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_arithmetic_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_exchange(WarpOperation::shuffle, mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace standin

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  standin::warp_exchange(standin::WarpOperation::sync, mask, 0, 0);
}
template <class T>
T __shfl_sync(unsigned mask, T var, int srcLane, int width = 32) {
  return standin::shuffle(mask, var, (standin::lane() & ~(width - 1)) | (srcLane & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T var, int laneMask, int width = 32) {
  const int lane = standin::lane(), source = lane ^ laneMask;
  return standin::shuffle(mask, var, source < (lane & ~(width - 1)) + width ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T var, unsigned delta, int width = 32) {
  const int lane = standin::lane(), source = lane + int(delta);
  return standin::shuffle(mask, var, source < (lane & ~(width - 1)) + width ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T var, unsigned delta, int width = 32) {
  const int lane = standin::lane(), source = lane - int(delta);
  return standin::shuffle(mask, var, source >= (lane & ~(width - 1)) ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return unsigned(standin::warp_exchange(standin::WarpOperation::ballot, mask, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }
