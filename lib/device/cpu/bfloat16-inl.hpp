// Vectors of bfloat16 to and from f32, with the rounding of gpt::bfloat16.
#if defined(GPT_DEVICE_CPU_BFLOAT16_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_BFLOAT16_INL_HPP
#undef GPT_DEVICE_CPU_BFLOAT16_INL_HPP
#else
#define GPT_DEVICE_CPU_BFLOAT16_INL_HPP
#endif

#include "base/bfloat16.hpp"
#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Words whose upper halves are the lanes' bfloat16 bits; what the lower halves hold does not matter. Integer
/// arithmetic, so that every instruction set rounds to nearest, ties to even, and keeps NaN: the instruction
/// of AVX-512 for this would flush denormals, and Highway's conversion truncates.
HWY_INLINE auto rounded_words(Vector v) {
  const hn::RebindToUnsigned<FloatTag> words;
  const auto raw = hn::BitCast(words, v);
  const auto tie_to_even = hn::And(hn::ShiftRight<16>(raw), hn::Set(words, 1));
  const auto rounded = hn::Add(raw, hn::Add(tie_to_even, hn::Set(words, 0x7FFF)));
  const auto quiet = hn::Or(raw, hn::Set(words, 0x400000));
  return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), quiet, rounded);
}

// The same names as for f32, so that a kernel is written once for both.

HWY_INLINE void store(Vector v, bfloat16* p) {
  const hn::Repartition<uint16_t, FloatTag> pairs;
  const hn::Half<decltype(pairs)> halves;
  const auto words = hn::BitCast(pairs, rounded_words(v));
  hn::StoreU(hn::LowerHalf(halves, hn::ConcatOdd(pairs, words, words)), halves,
             reinterpret_cast<uint16_t*>(p));
}

HWY_INLINE Vector load(const bfloat16* p) {
  const hn::RebindToUnsigned<FloatTag> words;
  const hn::Rebind<uint16_t, FloatTag> halves;
  const auto raw = hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(float_tag, hn::ShiftLeft<16>(raw));
}

HWY_INLINE Vector load_n(const bfloat16* p, int64_t n) {
  HWY_ALIGN bfloat16 part[lanes] = {};
  std::memcpy(part, p, static_cast<size_t>(n) * sizeof(bfloat16));
  return load(part);
}
HWY_INLINE void store_n(Vector v, bfloat16* p, int64_t n) {
  HWY_ALIGN bfloat16 part[lanes];
  store(v, part);
  std::memcpy(p, part, static_cast<size_t>(n) * sizeof(bfloat16));
}

HWY_INLINE Vector round_to_bfloat16(Vector v) {
  const hn::RebindToUnsigned<FloatTag> words;
  return hn::BitCast(float_tag, hn::And(rounded_words(v), hn::Set(words, 0xFFFF0000)));
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
