#include "device/cpu/attention_heads.hpp"

#include <algorithm>
#include <cmath>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_single.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/bfloat16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

template <class Element>
HWY_INLINE float dot(const Element* a, const Element* b, int64_t size) {
  Vector sum = broadcast(0.0F);
  for_vectors(
      0, size, [&](int64_t i) HWY_ATTR { sum = hn::MulAdd(load(a + i), load(b + i), sum); },
      [&](int64_t i, int64_t n) HWY_ATTR { sum = hn::MulAdd(load_n(a + i, n), load_n(b + i, n), sum); });
  return sum_lanes(sum);
}

/// x = exp(x − max x); returns the sum.
HWY_INLINE float exponentiate(float* x, int64_t size) {
  const Vector most = broadcast(*std::max_element(x, x + size));
  Vector sum = broadcast(0.0F);
  float rest = 0.0F;
  for_vectors(
      0, size,
      [&](int64_t i) HWY_ATTR {
        const Vector e = exponential(hn::Sub(load(x + i), most));
        store(e, x + i);
        sum = hn::Add(sum, e);
      },
      [&](int64_t i, int64_t n) HWY_ATTR {
        store_n(exponential(hn::Sub(load_n(x + i, n), most)), x + i, n);
        for (int64_t k = i; k < i + n; ++k) rest += x[k];
      });
  return sum_lanes(sum) + rest;
}

/// Columns [d, d + vectors·lanes) of Σ weight[k]·values[k], times `factor`.
template <int64_t vectors, class Element>
HWY_INLINE void add_values(const AttentionSingle<Element>& attention, const float* weights, int64_t d,
                           Vector factor) {
  Vector sums[vectors];
  for (int64_t v = 0; v < vectors; ++v) sums[v] = broadcast(0.0F);
  const Element* value = attention.values + d;
  for (int64_t k = 0; k < attention.count; ++k, value += attention.head_size) {
    const Vector weight = broadcast(weights[k]);
    for (int64_t v = 0; v < vectors; ++v) sums[v] = hn::MulAdd(weight, load(value + v * lanes), sums[v]);
  }
  for (int64_t v = 0; v < vectors; ++v) store(hn::Mul(sums[v], factor), attention.y + d + v * lanes);
}

template <class Element>
HWY_INLINE void attend_to_all(const AttentionSingle<Element>& attention, float* scores) {
  const int64_t count = attention.count, size = attention.head_size;
  for (int64_t k = 0; k < count; ++k)
    scores[k] = dot(attention.q, attention.keys + k * size, size) * attention.scale;
  const Vector inverse = broadcast(1.0F / exponentiate(scores, count));
  int64_t d = 0;
  // Four sums that do not wait for each other.
  for (; d + 4 * lanes <= size; d += 4 * lanes) add_values<4>(attention, scores, d, inverse);
  for_vectors(
      d, size, [&](int64_t i) HWY_ATTR { add_values<1>(attention, scores, i, inverse); },
      [&](int64_t i, int64_t n) HWY_ATTR {
        Vector sum = broadcast(0.0F);
        for (int64_t k = 0; k < count; ++k)
          sum = hn::MulAdd(broadcast(scores[k]), load_n(attention.values + k * size + i, n), sum);
        store_n(hn::Mul(sum, inverse), attention.y + i, n);
      });
}

void attend_f32(const AttentionSingle<float>& attention, float* scores) { attend_to_all(attention, scores); }

void attend_bf16(const AttentionSingle<bfloat16>& attention, float* scores) {
  attend_to_all(attention, scores);
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(attend_f32);
HWY_EXPORT(attend_bf16);

void attend(const AttentionSingle<float>& attention, float* scores) {
  HWY_DYNAMIC_DISPATCH(attend_f32)(attention, scores);
}

void attend(const AttentionSingle<bfloat16>& attention, float* scores) {
  HWY_DYNAMIC_DISPATCH(attend_bf16)(attention, scores);
}

}  // namespace gpt
#endif
