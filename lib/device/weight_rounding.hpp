#pragma once

#include "base/bfloat16.hpp"
#include "base/philox.hpp"

#include <array>
#include <bit>
#include <cstdint>

namespace gpt {

/// How f32 weights become bf16.
///
/// Nearest: ties to even. Stochastic: to one of the two neighbours, to each with the probability with which
/// the expectation is the weight itself (Gupta et al. 2015, "Deep learning with limited numerical precision";
/// for bf16 weights Zamirai et al. 2020, "Revisiting bfloat16 training"). Which one is a pure function of
/// (seed, step, index), so that neither the rank count nor how ranges are cut changes it.
struct WeightRounding {
  bool stochastic = false;
  uint64_t seed = 0;
  int64_t step = 0;   ///< updates that made these weights
  int64_t first = 0;  ///< index in the Layout of the tensors' element 0

  /// Of the elements from `offset` on.
  constexpr WeightRounding from(int64_t offset) const {
    WeightRounding part = *this;
    part.first += offset;
    return part;
  }
};

inline constexpr WeightRounding to_nearest{};

/// Weights that share a draw.
inline constexpr int64_t rounding_block = 8;

/// Keeps these draws apart from others of the same seed: "rounding".
inline constexpr uint64_t rounding_stream = 0x726f756e'64696e67;

/// 16 random bits for each weight of [8·block, 8·block + 8): weight k's are the lower half of word k/2 where
/// k is even, the upper half where it is odd.
constexpr std::array<uint32_t, 4> rounding_bits(const WeightRounding& rounding, int64_t block) {
  return philox(rounding.seed ^ rounding_stream,
                {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(rounding.step), static_cast<uint32_t>(rounding.step >> 32)});
}

/// Adds the random bits, of 0 to 2¹⁶ − 1, to what bf16 leaves off, and leaves it off: the neighbour farther
/// from zero comes with the probability of what was left off / 2¹⁶. What bf16 holds stays as it is, infinity
/// and NaN too; beyond the largest number the neighbour is infinity.
constexpr bfloat16 round_stochastically(float value, uint32_t bits) {
  const uint32_t raw = std::bit_cast<uint32_t>(value);
  if ((raw & 0x7fffffff) > 0x7f800000) return bfloat16(value);  // a carry would make something else of NaN
  bfloat16 rounded;
  rounded.bits = static_cast<uint16_t>((raw + bits) >> 16);
  return rounded;
}

}  // namespace gpt
