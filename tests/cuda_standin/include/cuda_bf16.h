// Stand-in for cuda_bf16.h: storage and conversions, without the arithmetic operators.
#pragma once

#include <cuda_runtime.h>

struct __nv_bfloat16_raw {
  unsigned short x;
};

class alignas(2) __nv_bfloat16 {
public:
  __nv_bfloat16() = default;
  constexpr __nv_bfloat16(const __nv_bfloat16_raw& raw) : bits_(raw.x) {}
  constexpr operator __nv_bfloat16_raw() const { return {bits_}; }

private:
  unsigned short bits_;
};
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat162 = __nv_bfloat162;

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return __nv_bfloat16_raw(h).x; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }

inline float __bfloat162float(__nv_bfloat16 h) {
  return __uint_as_float(unsigned{__bfloat16_as_ushort(h)} << 16);
}
/// To nearest, ties to even; every NaN becomes 0x7fff, as on the device.
inline __nv_bfloat16 __float2bfloat16_rn(float f) {
  const unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return __ushort_as_bfloat16(0x7fff);
  return __ushort_as_bfloat16(static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16));
}
/// Towards zero.
inline __nv_bfloat16 __float2bfloat16_rz(float f) {
  const unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return __ushort_as_bfloat16(0x7fff);
  return __ushort_as_bfloat16(static_cast<unsigned short>(bits >> 16));
}
inline __nv_bfloat16 __float2bfloat16(float f) { return __float2bfloat16_rn(f); }

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {__float2bfloat16_rn(a), __float2bfloat16_rn(b)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __floats2bfloat162_rn(a.x, a.y); }
inline float __low2float(__nv_bfloat162 a) { return __bfloat162float(a.x); }
inline float __high2float(__nv_bfloat162 a) { return __bfloat162float(a.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 a) { return {__low2float(a), __high2float(a)}; }
