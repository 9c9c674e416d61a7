#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace standin {

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

/// To nearest, ties to even, of the upper bits of an fp32; `dropped` lower ones become 0.
inline float round_mantissa(float value, int dropped) {
  if (std::isnan(value)) return value;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t half = (1u << (dropped - 1)) - 1, odd = bits >> dropped & 1;
  return std::bit_cast<float>((bits + half + odd) >> dropped << dropped);
}

inline uint16_t float_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fff;
  return uint16_t(std::bit_cast<uint32_t>(round_mantissa(value, 16)) >> 16);
}

}  // namespace standin
