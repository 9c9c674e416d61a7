#pragma once

#include "base/bfloat16.hpp"

#include <bit>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace gpt {

/// N values that are loaded and stored together, by one instruction where they have 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];

  __device__ T& operator[](int i) { return values[i]; }
  __device__ const T& operator[](int i) const { return values[i]; }
};

template <int N>
using Floats = Pack<float, N>;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(bfloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

/// Rounds to nearest, ties to even.
template <class Element>
__device__ __forceinline__ Element from_float(float value) {
  if constexpr (sizeof(Element) == sizeof(float))
    return value;
  else
    return std::bit_cast<bfloat16>(__float2bfloat16_rn(value));
}

/// The address must be a multiple of Pack's alignment.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

template <int N, class Element>
__device__ __forceinline__ Floats<N> load_floats(const Element* from) {
  const Pack<Element, N> pack = load_pack<N>(from);
  Floats<N> floats;
#pragma unroll
  for (int i = 0; i < N; ++i) floats[i] = to_float(pack[i]);
  return floats;
}
template <int N, class Element>
__device__ __forceinline__ void store_floats(Element* to, const Floats<N>& floats) {
  Pack<Element, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack[i] = from_float<Element>(floats[i]);
  store_pack<N>(to, pack);
}

/// Whether all addresses are multiples of 16; null is.
template <class... T>
bool aligned(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace gpt
