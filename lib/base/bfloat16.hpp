#pragma once

#include <bit>
#include <cstdint>

namespace gpt {

/// The upper half of an IEEE single. Arithmetic goes through float; rounding is to nearest, ties to even.
struct bfloat16 {
  uint16_t bits = 0;

  constexpr bfloat16() = default;
  constexpr explicit bfloat16(float value) {
    const uint32_t raw = std::bit_cast<uint32_t>(value);
    const bool is_nan = (raw & 0x7fffffff) > 0x7f800000;
    bits = static_cast<uint16_t>(is_nan ? (raw >> 16 | 0x40) : (raw + 0x7fff + (raw >> 16 & 1)) >> 16);
  }
  constexpr explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

}  // namespace gpt
