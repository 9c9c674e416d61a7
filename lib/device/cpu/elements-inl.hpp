// Passes over runs of elements that several kernels make. Elements are float or bfloat16.
#if defined(GPT_DEVICE_CPU_ELEMENTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_ELEMENTS_INL_HPP
#undef GPT_DEVICE_CPU_ELEMENTS_INL_HPP
#else
#define GPT_DEVICE_CPU_ELEMENTS_INL_HPP
#endif

#include "device/cpu/bfloat16-inl.hpp"
#include "device/cpu/simd-inl.hpp"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// out = a + b in f32; out may be either
template <class Element>
HWY_INLINE void add_elements(float* out, const Element* a, const Element* b, int64_t size) {
  for_vectors(
      0, size, [&](int64_t i) HWY_ATTR { store(hn::Add(load(a + i), load(b + i)), out + i); },
      [&](int64_t i, int64_t n)
          HWY_ATTR { store_n(hn::Add(load_n(a + i, n), load_n(b + i, n)), out + i, n); });
}

/// out = in, rounded or widened
template <class To, class From>
HWY_INLINE void convert_elements(To* out, const From* in, int64_t size) {
  for_vectors(
      0, size, [&](int64_t i) HWY_ATTR { store(load(in + i), out + i); },
      [&](int64_t i, int64_t n) HWY_ATTR { store_n(load_n(in + i, n), out + i, n); });
}

/// size > 0; with NaN among the elements any number may come back.
template <class Element>
HWY_INLINE float largest_element(const Element* x, int64_t size) {
  Vector even = broadcast(static_cast<float>(x[0]));
  Vector odd = even;
  int64_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    even = hn::Max(even, load(x + i));
    odd = hn::Max(odd, load(x + i + lanes));
  }
  float result = max_lanes(hn::Max(even, odd));
  for (; i < size; ++i) result = std::max(result, static_cast<float>(x[i]));
  return result;
}

/// y = e^exponent(x). Returns the sums of whole vectors, lane by lane; the last size % lanes elements of y
/// are left to the caller to add.
template <class Exponent>
HWY_INLINE Vector exponentiate(float* y, const float* x, int64_t size, const Exponent& exponent) {
  Vector sum = broadcast(0.0F);
  for_vectors(
      0, size,
      [&](int64_t i) HWY_ATTR {
        const Vector e = exponential(exponent(load(x + i)));
        store(e, y + i);
        sum = hn::Add(sum, e);
      },
      [&](int64_t i, int64_t n) HWY_ATTR { store_n(exponential(exponent(load_n(x + i, n))), y + i, n); });
  return sum;
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
