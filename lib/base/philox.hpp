#pragma once

#include <array>
#include <cstdint>

namespace gpt {

/// Philox4x32-10: 128 random bits from a 64-bit key and a 128-bit counter (Salmon et al. 2011, "Parallel
/// random numbers: as easy as 1, 2, 3"). No state: the same key and counter give the same bits everywhere.
constexpr std::array<uint32_t, 4> philox(uint64_t key, std::array<uint32_t, 4> counter) {
  uint32_t key_low = static_cast<uint32_t>(key);
  uint32_t key_high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key_low, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key_high,
               static_cast<uint32_t>(product0)};
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return counter;
}

/// 64 random bits for (`key`, `a`, `b`).
constexpr uint64_t random_bits(uint64_t key, uint64_t a, uint64_t b = 0) {
  const auto bits = philox(key, {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                                 static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)});
  return uint64_t{bits[1]} << 32 | bits[0];
}

/// Uniform in [0, 1) with 53 bits.
constexpr double to_unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace gpt
