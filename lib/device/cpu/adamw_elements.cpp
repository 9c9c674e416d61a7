#include "device/cpu/adamw_elements.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/adamw_elements.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/stochastic_rounding-inl.hpp"

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

struct NearestHalf {
  bfloat16* half;  ///< or null

  HWY_INLINE void store(Vector p, int64_t i) const {
    if (half != nullptr) HWY_NAMESPACE::store(p, half + i);
  }
  HWY_INLINE void store_n(Vector p, int64_t i, int64_t n) const {
    if (half != nullptr) HWY_NAMESPACE::store_n(p, half + i, n);
  }
};

struct StochasticHalf {
  bfloat16* half;
  const uint16_t* bits;  ///< from element `first` on
  int64_t first;

  HWY_INLINE void store(Vector p, int64_t i) const { store_stochastically(p, bits + (i - first), half + i); }
  HWY_INLINE void store_n(Vector p, int64_t i, int64_t n) const {
    store_stochastically_n(p, bits + (i - first), half + i, n);
  }
};

template <class Half>
HWY_INLINE void update(const AdamWArrays& a, Range elements, float clip_scale, const AdamWFactors& factors,
                       const Half& half) {
  for_vectors(
      elements.begin, elements.end,
      [&](int64_t i) HWY_ATTR {
        const AdamWVectors next =
            adamw_step({load(a.p + i), load(a.m + i), load(a.v + i)}, load(a.g + i), clip_scale, factors);
        store(next.m, a.m + i);
        store(next.v, a.v + i);
        store(next.p, a.p + i);
        half.store(next.p, i);
      },
      [&](int64_t i, int64_t n) HWY_ATTR {
        const AdamWVectors next = adamw_step({load_n(a.p + i, n), load_n(a.m + i, n), load_n(a.v + i, n)},
                                             load_n(a.g + i, n), clip_scale, factors);
        store_n(next.m, a.m + i, n);
        store_n(next.v, a.v + i, n);
        store_n(next.p, a.p + i, n);
        half.store_n(next.p, i, n);
      });
}

void adamw_elements_simd(const AdamWArrays& arrays, int64_t size, float clip_scale,
                         const AdamWFactors& factors, const WeightRounding& rounding) {
  const AdamWArrays a = arrays;  // copies: the stores might alias the arguments
  const AdamWFactors local = factors;
  if (a.half == nullptr || !rounding.stochastic)
    return update(a, {0, size}, clip_scale, local, NearestHalf{a.half});
  with_draws(rounding, size, [&](Range part, const uint16_t* bits) HWY_ATTR {
    update(a, part, clip_scale, local, StochasticHalf{a.half, bits, part.begin});
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

void adamw_elements(const AdamWArrays& arrays, int64_t size, float clip_scale, const AdamWFactors& factors,
                    const WeightRounding& rounding) {
  HWY_DYNAMIC_DISPATCH(adamw_elements_simd)(arrays, size, clip_scale, factors, rounding);
}

double sum_of_squares(const float* g, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_simd)(g, size);
}

}  // namespace gpt
#endif
