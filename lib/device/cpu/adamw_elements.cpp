#include "device/cpu/adamw_elements.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/adamw_elements.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/bfloat16-inl.hpp"
#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

struct AdamWVectors {
  Vector p;
  Vector m;
  Vector v;
};

HWY_INLINE AdamWVectors adamw_step(const AdamWVectors& old, Vector g, float clip_scale,
                                   const AdamWFactors& f) {
  const Vector gradient = hn::Mul(g, broadcast(clip_scale));
  const Vector m = hn::MulAdd(broadcast(f.beta1), old.m, hn::Mul(broadcast(f.one_minus_beta1), gradient));
  const Vector square = hn::Mul(gradient, gradient);
  const Vector v = hn::MulAdd(broadcast(f.beta2), old.v, hn::Mul(broadcast(f.one_minus_beta2), square));
  const Vector deviation = hn::MulAdd(hn::Sqrt(v), broadcast(f.root), broadcast(f.eps));
  const Vector p =
      hn::NegMulAdd(hn::Div(m, deviation), broadcast(f.rate), hn::Mul(old.p, broadcast(f.decay)));
  return {p, m, v};
}

void adamw_elements_simd(const AdamWArrays& arrays, int64_t size, float clip_scale,
                         const AdamWFactors& factors) {
  const AdamWArrays a = arrays;  // copies: the stores below might alias the arguments
  const AdamWFactors local = factors;
  for_vectors(
      0, size,
      [&](int64_t i) HWY_ATTR {
        const AdamWVectors next =
            adamw_step({load(a.p + i), load(a.m + i), load(a.v + i)}, load(a.g + i), clip_scale, local);
        store(next.m, a.m + i);
        store(next.v, a.v + i);
        store(next.p, a.p + i);
        if (a.half != nullptr) store(next.p, a.half + i);
      },
      [&](int64_t i, int64_t n) HWY_ATTR {
        const AdamWVectors next = adamw_step({load_n(a.p + i, n), load_n(a.m + i, n), load_n(a.v + i, n)},
                                             load_n(a.g + i, n), clip_scale, local);
        store_n(next.m, a.m + i, n);
        store_n(next.v, a.v + i, n);
        store_n(next.p, a.p + i, n);
        if (a.half == nullptr) return;
        for (int64_t k = i; k < i + n; ++k) a.half[k] = bfloat16(a.p[k]);
      });
}

double sum_of_squares_simd(const float* g, int64_t size) {
  const hn::CappedTag<double, 8> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  constexpr int64_t step = hn::MaxLanes(doubles);
  auto even = hn::Zero(doubles);
  auto odd = hn::Zero(doubles);
  int64_t i = 0;
  for (; i + 2 * step <= size; i += 2 * step) {
    const auto a = hn::PromoteTo(doubles, hn::LoadU(floats, g + i));
    const auto b = hn::PromoteTo(doubles, hn::LoadU(floats, g + i + step));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(doubles, hn::Add(even, odd)));
  for (; i < size; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  return sum;
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(adamw_elements_simd);
HWY_EXPORT(sum_of_squares_simd);

void adamw_elements(const AdamWArrays& arrays, int64_t size, float clip_scale, const AdamWFactors& factors) {
  HWY_DYNAMIC_DISPATCH(adamw_elements_simd)(arrays, size, clip_scale, factors);
}

double sum_of_squares(const float* g, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_simd)(g, size);
}

}  // namespace gpt
#endif
