#include "device/cpu/elementwise.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/elements-inl.hpp"
#include "device/cpu/stochastic_rounding-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

constexpr float twice_root = 1.5957691216F;  // 2·√(2/π)
constexpr float cubic = 0.044715F;

/// ½(1 + tanh(u)) = sigmoid(2u), u = √(2/π)(x + 0.044715 x³)
HWY_INLINE Vector gelu_gate(Vector x) {
  const Vector one = broadcast(1.0F);
  const Vector slope = hn::MulAdd(hn::Mul(x, broadcast(-twice_root * cubic)), x, broadcast(-twice_root));
  return reciprocal(hn::Add(one, exponential(hn::Mul(x, slope))));
}

HWY_INLINE Vector gelu_slope(Vector x) {
  const Vector one = broadcast(1.0F);
  const Vector gate = gelu_gate(x);
  const Vector slope = hn::MulAdd(hn::Mul(x, broadcast(3.0F * twice_root * cubic)), x, broadcast(twice_root));
  return hn::MulAdd(hn::Mul(hn::Mul(x, gate), hn::Sub(one, gate)), slope, gate);
}

template <class Rounding, class Element>
HWY_INLINE void gelu_of(Element* y, const Element* x, int64_t size) {
  const auto value = [](Vector v) HWY_ATTR { return hn::Mul(v, gelu_gate(v)); };
  for_vectors(
      0, size, [&](int64_t i) HWY_ATTR { Rounding::store(value(load(x + i)), y + i); },
      [&](int64_t i, int64_t n) HWY_ATTR { store_n(value(load_n(x + i, n)), y + i, n); });
}

template <class Rounding, class Element>
HWY_INLINE void multiply_by_gelu_slope_of(Element* d, const Element* x, int64_t size) {
  for_vectors(
      0, size,
      [&](int64_t i) HWY_ATTR { Rounding::store(hn::Mul(load(d + i), gelu_slope(load(x + i))), d + i); },
      [&](int64_t i, int64_t n)
          HWY_ATTR { store_n(hn::Mul(load_n(d + i, n), gelu_slope(load_n(x + i, n))), d + i, n); });
}

void gelu_f32(float* y, const float* x, int64_t size) { gelu_of<PortableRounding>(y, x, size); }
void gelu_bf16(bfloat16* y, const bfloat16* x, int64_t size) {
  with_rounding_to_bfloat16([&]<class Rounding>(Rounding) HWY_ATTR { gelu_of<Rounding>(y, x, size); });
}
void multiply_by_gelu_slope_f32(float* d, const float* x, int64_t size) {
  multiply_by_gelu_slope_of<PortableRounding>(d, x, size);
}
void multiply_by_gelu_slope_bf16(bfloat16* d, const bfloat16* x, int64_t size) {
  with_rounding_to_bfloat16([&]<class Rounding>(Rounding)
                                HWY_ATTR { multiply_by_gelu_slope_of<Rounding>(d, x, size); });
}

void add_arrays_simd(float* out, const float* a, const float* b, int64_t size) {
  add_elements(out, a, b, size);
}
void round_to_bfloat16_simd(bfloat16* y, const float* x, int64_t size) { convert_elements(y, x, size); }
void round_stochastically_simd(bfloat16* y, const float* x, int64_t size, const WeightRounding& rounding) {
  with_draws(rounding, size, [&](Range part, const uint16_t* bits) HWY_ATTR {
    const auto bits_of = [&](int64_t i) { return bits + (i - part.begin); };
    for_vectors(
        part.begin, part.end,
        [&](int64_t i) HWY_ATTR { store_stochastically(load(x + i), bits_of(i), y + i); },
        [&](int64_t i, int64_t n)
            HWY_ATTR { store_stochastically_n(load_n(x + i, n), bits_of(i), y + i, n); });
  });
}
void widen_bfloat16_simd(float* y, const bfloat16* x, int64_t size) { convert_elements(y, x, size); }

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(gelu_f32);
HWY_EXPORT(gelu_bf16);
HWY_EXPORT(multiply_by_gelu_slope_f32);
HWY_EXPORT(multiply_by_gelu_slope_bf16);
HWY_EXPORT(add_arrays_simd);
HWY_EXPORT(round_to_bfloat16_simd);
HWY_EXPORT(round_stochastically_simd);
HWY_EXPORT(widen_bfloat16_simd);

void gelu(float* y, const float* x, int64_t size) { HWY_DYNAMIC_DISPATCH(gelu_f32)(y, x, size); }
void gelu(bfloat16* y, const bfloat16* x, int64_t size) { HWY_DYNAMIC_DISPATCH(gelu_bf16)(y, x, size); }

void multiply_by_gelu_slope(float* d, const float* x, int64_t size) {
  HWY_DYNAMIC_DISPATCH(multiply_by_gelu_slope_f32)(d, x, size);
}
void multiply_by_gelu_slope(bfloat16* d, const bfloat16* x, int64_t size) {
  HWY_DYNAMIC_DISPATCH(multiply_by_gelu_slope_bf16)(d, x, size);
}

void add_arrays(float* out, const float* a, const float* b, int64_t size) {
  HWY_DYNAMIC_DISPATCH(add_arrays_simd)(out, a, b, size);
}

void round_to_bfloat16(bfloat16* y, const float* x, int64_t size) {
  HWY_DYNAMIC_DISPATCH(round_to_bfloat16_simd)(y, x, size);
}

void round_stochastically(bfloat16* y, const float* x, int64_t size, const WeightRounding& rounding) {
  HWY_DYNAMIC_DISPATCH(round_stochastically_simd)(y, x, size, rounding);
}

void widen_bfloat16(float* y, const bfloat16* x, int64_t size) {
  HWY_DYNAMIC_DISPATCH(widen_bfloat16_simd)(y, x, size);
}

}  // namespace gpt
#endif
