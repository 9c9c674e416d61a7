#pragma once

#include "device/cuda/packed.hpp"
#include "device/weight_rounding.hpp"

#include <cstdint>

namespace gpt {

/// Stores N weights from element `i` of the tensor on. @param rounding  stochastic; its element i is the
/// first weight or, where N is 4, the first of a multiple of 4
template <int N>
__device__ __forceinline__ void store_stochastically(bfloat16* to, const Floats<N>& values,
                                                     const WeightRounding& rounding, int64_t i) {
  static_assert(N == 1 || N == 4);
  const int64_t index = rounding.first + i;
  const auto bits = rounding_bits(rounding, index / rounding_block);
  Pack<bfloat16, N> rounded;
  if constexpr (N == 4) {
    const bool second = index % rounding_block != 0;
    const uint32_t words[] = {second ? bits[2] : bits[0], second ? bits[3] : bits[1]};
#pragma unroll
    for (int k = 0; k < N; ++k)
      rounded[k] = round_stochastically(values[k], k % 2 == 0 ? words[k / 2] & 0xffff : words[k / 2] >> 16);
  } else {
    const int word = static_cast<int>(index % rounding_block) / 2;
    const uint32_t pair = word == 0 ? bits[0] : word == 1 ? bits[1] : word == 2 ? bits[2] : bits[3];
    rounded[0] = round_stochastically(values[0], index % 2 == 0 ? pair & 0xffff : pair >> 16);
  }
  store_pack<N>(to, rounded);
}

}  // namespace gpt
