#include "device/cpu/cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/elements-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Σ exp(x − shift); the terms are left in x where it may be written.
template <class Element>
HWY_INLINE double sum_exponentials(Element* x, float shift, int64_t size) {
  constexpr bool keep = !std::is_const_v<Element>;
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
        if constexpr (keep) store_n(hn::Load(float_tag, part), x + j, n);
      });
  return static_cast<double>(sum_lanes(hn::Add(even, odd))) + static_cast<double>(rest);
}

template <class Element>
HWY_INLINE double cross_entropy_of(const Element* logits, int64_t vocabulary, int64_t target) {
  const float most = largest_element(logits, vocabulary);
  const double sum = sum_exponentials(logits, most, vocabulary);
  return std::log(sum) + static_cast<double>(most) - static_cast<double>(static_cast<float>(logits[target]));
}

template <class Element>
HWY_INLINE double cross_entropy_gradient_of(Element* logits, int64_t vocabulary, int64_t padded,
                                            int64_t target, float scale) {
  const float most = largest_element(logits, vocabulary);
  const auto target_logit = static_cast<double>(static_cast<float>(logits[target]));
  // The target is summed apart from the others: p − 1 is −Σ others/sum, which p near 1 would round away.
  logits[target] = Element(-std::numeric_limits<float>::infinity());
  const double others = sum_exponentials(logits, most, vocabulary);
  const double sum = others + std::exp(target_logit - static_cast<double>(most));
  const double factor = static_cast<double>(scale) / sum;
  const Vector factors = broadcast(static_cast<float>(factor));
  for_vectors(
      0, vocabulary, [&](int64_t i) HWY_ATTR { store(hn::Mul(load(logits + i), factors), logits + i); },
      [&](int64_t i, int64_t n)
          HWY_ATTR { store_n(hn::Mul(load_n(logits + i, n), factors), logits + i, n); });
  logits[target] = Element(static_cast<float>(-factor * others));
  std::fill(logits + vocabulary, logits + padded, Element(0.0F));
  return std::log(sum) + static_cast<double>(most) - target_logit;
}

double cross_entropy_f32(const float* logits, int64_t vocabulary, int64_t target) {
  return cross_entropy_of(logits, vocabulary, target);
}
double cross_entropy_bf16(const bfloat16* logits, int64_t vocabulary, int64_t target) {
  return cross_entropy_of(logits, vocabulary, target);
}
double cross_entropy_gradient_f32(float* logits, int64_t vocabulary, int64_t padded, int64_t target,
                                  float scale) {
  return cross_entropy_gradient_of(logits, vocabulary, padded, target, scale);
}
double cross_entropy_gradient_bf16(bfloat16* logits, int64_t vocabulary, int64_t padded, int64_t target,
                                   float scale) {
  return cross_entropy_gradient_of(logits, vocabulary, padded, target, scale);
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(cross_entropy_f32);
HWY_EXPORT(cross_entropy_bf16);
HWY_EXPORT(cross_entropy_gradient_f32);
HWY_EXPORT(cross_entropy_gradient_bf16);

double cross_entropy(const float* logits, int64_t vocabulary, int64_t target) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_f32)(logits, vocabulary, target);
}
double cross_entropy(const bfloat16* logits, int64_t vocabulary, int64_t target) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_bf16)(logits, vocabulary, target);
}

double cross_entropy_gradient(float* logits, int64_t vocabulary, int64_t padded, int64_t target,
                              float scale) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_gradient_f32)(logits, vocabulary, padded, target, scale);
}
double cross_entropy_gradient(bfloat16* logits, int64_t vocabulary, int64_t padded, int64_t target,
                              float scale) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_gradient_bf16)(logits, vocabulary, padded, target, scale);
}

}  // namespace gpt
#endif
