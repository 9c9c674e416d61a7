#include "device/cpu/attention_heads.hpp"

#include <algorithm>
#include <cmath>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_single.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

HWY_INLINE float dot(const float* a, const float* b, int64_t size) {
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

void attend_simd(float* y, const float* q, const float* keys, const float* values, int64_t count,
                 int64_t stride, int64_t head_size, float scale, float* scores) {
  for (int64_t k = 0; k < count; ++k) scores[k] = dot(q, keys + k * stride, head_size) * scale;
  const float inverse = 1.0F / exponentiate(scores, count);
  for_vectors(
      0, head_size,
      [&](int64_t d) HWY_ATTR {
        Vector sum = broadcast(0.0F);
        for (int64_t k = 0; k < count; ++k)
          sum = hn::MulAdd(broadcast(scores[k]), load(values + k * stride + d), sum);
        store(hn::Mul(sum, broadcast(inverse)), y + d);
      },
      [&](int64_t d, int64_t n) HWY_ATTR {
        Vector sum = broadcast(0.0F);
        for (int64_t k = 0; k < count; ++k)
          sum = hn::MulAdd(broadcast(scores[k]), load_n(values + k * stride + d, n), sum);
        store_n(hn::Mul(sum, broadcast(inverse)), y + d, n);
      });
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(attend_simd);

void attend(float* y, const float* q, const float* keys, const float* values, int64_t count, int64_t stride,
            int64_t head_size, float scale, float* scores) {
  HWY_DYNAMIC_DISPATCH(attend_simd)(y, q, keys, values, count, stride, head_size, scale, scores);
}

}  // namespace gpt
#endif
