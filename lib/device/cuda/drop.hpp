#pragma once

#include "base/philox.hpp"
#include "device/cuda/packed.hpp"
#include "device/dropout_plan.hpp"

#include <cstdint>

/// What dropout multiplies elements by, as Ops::Dropout defines it.
namespace gpt {

__device__ __forceinline__ float factor_of(const DropoutPlan& plan, uint32_t bits) {
  return bits < plan.threshold ? 0.0F : plan.scale;
}

/// Factors of N elements of the tensor's sequence `index`, from `first` on: a multiple of 4 where N is 4.
template <int N>
__device__ __forceinline__ Floats<N> dropout_factors(const DropoutPlan& plan, int64_t index, int64_t first) {
  static_assert(N == 1 || N == 4);
  const auto bits =
      philox(plan.key, {static_cast<uint32_t>(first / 4), plan.first_sequence + static_cast<uint32_t>(index),
                        plan.site, plan.step});
  Floats<N> factors;
  if constexpr (N == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) factors[i] = factor_of(plan, bits[static_cast<size_t>(i)]);
  } else {
    const int word = static_cast<int>(first % 4);
    factors[0] = factor_of(plan, word == 0 ? bits[0] : word == 1 ? bits[1] : word == 2 ? bits[2] : bits[3]);
  }
  return factors;
}

/// values *= factors, where anything is dropped at all
template <int N>
__device__ __forceinline__ void drop(Floats<N>& values, const DropoutPlan& plan, int64_t index,
                                     int64_t first) {
  if (!plan.active()) return;
  const Floats<N> factors = dropout_factors<N>(plan, index, first);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] *= factors[i];
}

}  // namespace gpt
