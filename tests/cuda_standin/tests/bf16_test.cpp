#include <bit>
#include <cmath>
#include <cstdint>
#include <cuda_bf16.h>
#include <doctest/doctest.h>

namespace gpt {

TEST_CASE("every bf16 comes back from fp32") {
  bool right = true;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto number = __ushort_as_bfloat16(static_cast<unsigned short>(bits));
    const float value = __bfloat162float(number);
    const unsigned back = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    right = right && back == (std::isnan(value) ? 0x7fff : bits);
  }
  CHECK(right);
}

TEST_CASE("fp32 goes to the nearest bf16, and to the even one of two") {
  bool right = true;
  for (uint64_t i = 0; i < uint64_t{1} << 32; i += 65537 / 7) {
    const float value = std::bit_cast<float>(uint32_t(i));
    if (std::isnan(value)) continue;
    // The two neighbours, and their distances in double, which holds both exactly.
    const auto below = static_cast<unsigned short>(i >> 16);
    const float low = __bfloat162float(__ushort_as_bfloat16(below));
    const float high = std::bit_cast<float>((uint32_t{below} << 16) + 0x10000u);
    if (std::isinf(high) || std::isinf(low)) continue;
    const double to_low = std::abs(double(value) - double(low));
    const double step = std::abs(double(high) - double(low));
    const bool up = to_low > step / 2 || (to_low == step / 2 && (below & 1) != 0);
    right = right && __bfloat162float(__float2bfloat16_rn(value)) == (up ? high : low);
    right = right && __bfloat162float(__float2bfloat16_rz(value)) == low;
  }
  CHECK(right);
  CHECK(std::isinf(__bfloat162float(__float2bfloat16_rn(std::bit_cast<float>(0x7f7fffffu)))));
  CHECK(__bfloat16_as_ushort(__float2bfloat16(std::nanf(""))) == 0x7fff);
  const __nv_bfloat162 pair = __floats2bfloat162_rn(1.5f, -2.0f);
  CHECK(__low2float(pair) == 1.5f);
  CHECK(__high2float(pair) == -2.0f);
}

}  // namespace gpt
