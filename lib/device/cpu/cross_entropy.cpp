#include "device/cpu/cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

HWY_INLINE float largest(const float* x, int64_t size) {
  Vector even = broadcast(x[0]);
  Vector odd = even;
  int64_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    even = hn::Max(even, load(x + i));
    odd = hn::Max(odd, load(x + i + lanes));
  }
  float result = max_lanes(hn::Max(even, odd));
  for (; i < size; ++i) result = std::max(result, x[i]);
  return result;
}

/// Σ exp(x − shift); the terms are left in x where it may be written.
template <class Float>
HWY_INLINE double sum_exponentials(Float* x, float shift, int64_t size) {
  constexpr bool keep = !std::is_const_v<Float>;
  const Vector offset = broadcast(shift);
  Vector even = broadcast(0.0F);
  Vector odd = broadcast(0.0F);
  const auto term = [&](int64_t i) HWY_ATTR {
    const Vector e = exponential(hn::Sub(load(x + i), offset));
    if constexpr (keep) store(e, x + i);
    return e;
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    even = hn::Add(even, term(i));
    odd = hn::Add(odd, term(i + lanes));
  }
  float rest = 0.0F;
  for_vectors(
      i, size, [&](int64_t j) HWY_ATTR { even = hn::Add(even, term(j)); },
      [&](int64_t j, int64_t n) HWY_ATTR {
        HWY_ALIGN float part[lanes];
        hn::Store(exponential(hn::Sub(load_n(x + j, n), offset)), float_tag, part);
        for (int64_t k = 0; k < n; ++k) rest += part[k];
        if constexpr (keep) std::copy_n(part, n, x + j);
      });
  return static_cast<double>(sum_lanes(hn::Add(even, odd))) + static_cast<double>(rest);
}

double cross_entropy_simd(const float* logits, int64_t vocabulary, int64_t target) {
  const float most = largest(logits, vocabulary);
  const double sum = sum_exponentials(logits, most, vocabulary);
  return std::log(sum) + static_cast<double>(most) - static_cast<double>(logits[target]);
}

double cross_entropy_gradient_simd(float* logits, int64_t vocabulary, int64_t padded, int64_t target,
                                   float scale) {
  const float most = largest(logits, vocabulary);
  const double target_logit = static_cast<double>(logits[target]);
  const double sum = sum_exponentials(logits, most, vocabulary);
  const float factor = static_cast<float>(static_cast<double>(scale) / sum);
  const Vector factors = broadcast(factor);
  for_vectors(
      0, vocabulary, [&](int64_t i) HWY_ATTR { store(hn::Mul(load(logits + i), factors), logits + i); },
      [&](int64_t i, int64_t n) {
        for (int64_t k = i; k < i + n; ++k) logits[k] *= factor;
      });
  logits[target] -= scale;
  std::fill(logits + vocabulary, logits + padded, 0.0F);
  return std::log(sum) + static_cast<double>(most) - target_logit;
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(cross_entropy_simd);
HWY_EXPORT(cross_entropy_gradient_simd);

double cross_entropy(const float* logits, int64_t vocabulary, int64_t target) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_simd)(logits, vocabulary, target);
}

double cross_entropy_gradient(float* logits, int64_t vocabulary, int64_t padded, int64_t target,
                              float scale) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_gradient_simd)(logits, vocabulary, padded, target, scale);
}

}  // namespace gpt
#endif
