// Vector arithmetic that every kernel uses. Included once per instruction set, hence the guard that toggles.
#if defined(GPT_DEVICE_CPU_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_SIMD_INL_HPP
#undef GPT_DEVICE_CPU_SIMD_INL_HPP
#else
#define GPT_DEVICE_CPU_SIMD_INL_HPP
#endif

#include "base/integers.hpp"

#include <cstdint>
#include <cstring>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using Vector = hn::Vec<FloatTag>;
inline constexpr FloatTag float_tag{};
inline constexpr int64_t lanes = hn::MaxLanes(FloatTag());

HWY_INLINE Vector load(const float* p) { return hn::LoadU(float_tag, p); }
HWY_INLINE void store(Vector v, float* p) { hn::StoreU(v, float_tag, p); }
HWY_INLINE Vector broadcast(float value) { return hn::Set(float_tag, value); }

/// The first n < lanes floats, zeros behind them; nothing beyond them is read.
HWY_INLINE Vector load_n(const float* p, int64_t n) {
  HWY_ALIGN float part[lanes] = {};
  std::memcpy(part, p, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(float_tag, part);
}
HWY_INLINE void store_n(Vector v, float* p, int64_t n) {
  HWY_ALIGN float part[lanes];
  hn::Store(v, float_tag, part);
  std::memcpy(p, part, static_cast<size_t>(n) * sizeof(float));
}

HWY_INLINE float sum_lanes(Vector v) { return hn::GetLane(hn::SumOfLanes(float_tag, v)); }
HWY_INLINE float max_lanes(Vector v) { return hn::GetLane(hn::MaxOfLanes(float_tag, v)); }

/// Calls whole(i) for every vector of [begin, end) and rest(i, n) for the n elements left over.
template <class Whole, class Rest>
HWY_INLINE void for_vectors(int64_t begin, int64_t end, const Whole& whole, const Rest& rest) {
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) whole(i);
  if (i < end) rest(i, end - i);
}

/// e^x, relative error below 2e-7; x is clamped to [−87.3, 88.3], NaN stays NaN. Reduction by Cody and Waite
/// (1980) to |r| ≤ ln(2)/2, Taylor polynomial of degree 7.
HWY_INLINE Vector exponential(Vector x) {
  // The constant first: x86 answers with the second operand when one is NaN.
  x = hn::Min(broadcast(88.3F), hn::Max(broadcast(-87.3F), x));
  // Rounded by the addition: what is added leaves no room for digits behind the point, and n + 127, the
  // exponent of 2^n, stands in the lowest bits. Conversions to integers and back take longer.
  const Vector shift = broadcast(12582912.0F + 127.0F);  // 1.5·2²³ + 127
  const Vector shifted = hn::MulAdd(x, broadcast(1.44269504F), shift);
  const Vector n = hn::Sub(shifted, shift);
  Vector r = hn::NegMulAdd(n, broadcast(0.693145752F), x);
  r = hn::NegMulAdd(n, broadcast(1.42860677e-6F), r);
  Vector p = broadcast(1.0F / 5040);
  p = hn::MulAdd(p, r, broadcast(1.0F / 720));
  p = hn::MulAdd(p, r, broadcast(1.0F / 120));
  p = hn::MulAdd(p, r, broadcast(1.0F / 24));
  p = hn::MulAdd(p, r, broadcast(1.0F / 6));
  p = hn::MulAdd(p, r, broadcast(0.5F));
  p = hn::MulAdd(p, r, broadcast(1.0F));
  p = hn::MulAdd(p, r, broadcast(1.0F));
  const hn::RebindToUnsigned<FloatTag> words;
  return hn::Mul(p, hn::BitCast(float_tag, hn::ShiftLeft<23>(hn::BitCast(words, shifted))));
}

/// 1/x of x from 1 on, relative error below 4e-7; 0 where that is below 2^-126. On x86 an estimate with a
/// step of Newton's method: a division takes as long as ten products.
HWY_INLINE Vector reciprocal(Vector x) {
#if HWY_ARCH_X86
  const Vector estimate = hn::ApproximateReciprocal(x);
  return hn::Mul(estimate, hn::NegMulAdd(x, estimate, broadcast(2.0F)));
#else
  return hn::Div(broadcast(1.0F), x);
#endif
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
