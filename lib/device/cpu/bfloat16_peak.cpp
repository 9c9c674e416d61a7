#include "device/cpu/bfloat16_peak.hpp"

#include "device/cpu/amx.hpp"
#include "device/cpu/peak_rate.hpp"

#include <array>
#include <cstdint>

#if defined(__x86_64__)
#include "device/cpu/tile_blocks.hpp"

#include <immintrin.h>
#endif

namespace gpt {

#if defined(__x86_64__)
namespace {

/// Kept, so that the compiler cannot leave out what is written there.
void keep(const void* values) { asm volatile("" : : "r"(values) : "memory"); }

/// @return floating-point operations done
double tile_products() {
  constexpr int64_t rounds = 10'000, row_bytes = 64;
  alignas(64) static constexpr std::array<uint16_t, 512> ones = [] {
    std::array<uint16_t, 512> bits{};
    bits.fill(0x3F80);
    return bits;
  }();
  const TileScope tiles;
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
  zero_tile<4>();
  zero_tile<5>();
  load_tile<6>(ones.data(), row_bytes);
  load_tile<7>(ones.data(), row_bytes);
  // Six sums: a product takes 16 cycles, and its result 52.
  for (int64_t round = 0; round < rounds; ++round) {
    multiply_tiles<0, 6, 7>();
    multiply_tiles<1, 6, 7>();
    multiply_tiles<2, 6, 7>();
    multiply_tiles<3, 6, 7>();
    multiply_tiles<4, 6, 7>();
    multiply_tiles<5, 6, 7>();
  }
  constexpr double flops_of_product = 2.0 * 16 * 16 * 32;
  return 6 * flops_of_product * static_cast<double>(rounds);
}

/// @return floating-point operations done
__attribute__((target("avx512f,avx512bf16"))) double pair_products() {
  constexpr int64_t rounds = 60'000;
  constexpr int chains = 24;  // a multiple of the pipes times the latency
  // 1 · 1 + −1 · 1: sums stay what they are.
  const auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(0xBF803F80U)));
  const auto right = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3F803F80));
  __m512 sums[chains];
#pragma GCC unroll 24
  for (int i = 0; i < chains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 24
    for (int i = 0; i < chains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], left, right);
#pragma GCC unroll 24
  for (int i = 1; i < chains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  alignas(64) std::array<float, 16> result{};
  _mm512_store_ps(result.data(), sums[0]);
  keep(result.data());
  constexpr double flops_of_vector = 2.0 * 2 * 16;
  return chains * flops_of_vector * static_cast<double>(rounds);
}

}  // namespace

double measure_bfloat16_flops(int threads) {
  if (has_tiles()) return best_rate_of(threads, tile_products);
  if (__builtin_cpu_supports("avx512bf16")) return best_rate_of(threads, pair_products);
  return 0.0;
}

#else

double measure_bfloat16_flops(int) { return 0.0; }

#endif

}  // namespace gpt
