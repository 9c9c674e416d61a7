#include "device/cpu/attention_heads.hpp"
#include "device/cpu/prefetch.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_single.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/elements-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// scores[k] = q·keys[k]·scale for `keys` keys; q is loaded once for all of them.
template <int64_t keys, class Element>
HWY_INLINE void score(const AttentionSingle<Element>& attention, const Element* key, float* scores) {
  const int64_t size = attention.head_size;
  prefetch_ahead(key, keys * size);
  Vector sums[keys];
  for (int64_t k = 0; k < keys; ++k) sums[k] = broadcast(0.0F);
  for_vectors(
      0, size,
      [&](int64_t i) HWY_ATTR {
        const Vector q = load(attention.q + i);
        for (int64_t k = 0; k < keys; ++k) sums[k] = hn::MulAdd(q, load(key + k * size + i), sums[k]);
      },
      [&](int64_t i, int64_t n) HWY_ATTR {
        const Vector q = load_n(attention.q + i, n);
        for (int64_t k = 0; k < keys; ++k) sums[k] = hn::MulAdd(q, load_n(key + k * size + i, n), sums[k]);
      });
  for (int64_t k = 0; k < keys; ++k) scores[k] = sum_lanes(sums[k]) * attention.scale;
}

/// x = exp(x − max x); returns the sum.
HWY_INLINE float softmax_terms(float* x, int64_t size) {
  const Vector most = broadcast(largest_element(x, size));
  const Vector sum = exponentiate(x, x, size, [&](Vector v) HWY_ATTR { return hn::Sub(v, most); });
  float rest = 0.0F;
  for (int64_t i = size - size % lanes; i < size; ++i) rest += x[i];
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
    prefetch_ahead(value, vectors * lanes);
    const Vector weight = broadcast(weights[k]);
    for (int64_t v = 0; v < vectors; ++v) sums[v] = hn::MulAdd(weight, load(value + v * lanes), sums[v]);
  }
  for (int64_t v = 0; v < vectors; ++v) store(hn::Mul(sums[v], factor), attention.y + d + v * lanes);
}

template <class Element>
HWY_INLINE void attend_to_all(const AttentionSingle<Element>& attention, float* scores) {
  const int64_t count = attention.count, size = attention.head_size;
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) score<4>(attention, attention.keys + k * size, scores + k);
  for (; k < count; ++k) score<1>(attention, attention.keys + k * size, scores + k);
  const Vector inverse = broadcast(1.0F / softmax_terms(scores, count));
  int64_t d = 0;
  // Four sums that do not wait for each other.
  for (; d + 4 * lanes <= size; d += 4 * lanes) add_values<4>(attention, scores, d, inverse);
  for_vectors(
      d, size, [&](int64_t i) HWY_ATTR { add_values<1>(attention, scores, i, inverse); },
      [&](int64_t i, int64_t n) HWY_ATTR {
        Vector sum = broadcast(0.0F);
        for (int64_t key = 0; key < count; ++key)
          sum = hn::MulAdd(broadcast(scores[key]), load_n(attention.values + key * size + i, n), sum);
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
