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

/// The bfloat16 bits of each lane, in the lower half of a word. Integer arithmetic, so that every instruction
/// set rounds to nearest, ties to even, and keeps NaN.
HWY_INLINE auto rounded_bits(Vector v) {
  const hn::RebindToSigned<FloatTag> words;
  const auto raw = hn::BitCast(words, v);
  const auto upper = hn::And(hn::ShiftRight<16>(raw), hn::Set(words, 0xFFFF));
  const auto tie_to_even = hn::And(upper, hn::Set(words, 1));
  const auto sum = hn::Add(raw, hn::Add(hn::Set(words, 0x7FFF), tie_to_even));
  const auto rounded = hn::And(hn::ShiftRight<16>(sum), hn::Set(words, 0xFFFF));
  const auto is_nan = hn::Gt(hn::And(raw, hn::Set(words, 0x7FFFFFFF)), hn::Set(words, 0x7F800000));
  return hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(words, 0x40)), rounded);
}

// The same names as for f32, so that a kernel is written once for both.

HWY_INLINE void store(Vector v, bfloat16* p) {
  const hn::Rebind<uint16_t, FloatTag> halves;
  hn::StoreU(hn::DemoteTo(halves, rounded_bits(v)), halves, reinterpret_cast<uint16_t*>(p));
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
  return hn::BitCast(float_tag, hn::ShiftLeft<16>(rounded_bits(v)));
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
