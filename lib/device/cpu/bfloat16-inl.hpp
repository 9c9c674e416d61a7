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

HWY_INLINE void store_upper_halves(hn::Vec<hn::RebindToUnsigned<FloatTag>> words, bfloat16* p) {
  const hn::Repartition<uint16_t, FloatTag> pairs;
  const hn::Half<decltype(pairs)> halves;
  const auto parts = hn::BitCast(pairs, words);
  hn::StoreU(hn::LowerHalf(halves, hn::ConcatOdd(pairs, parts, parts)), halves,
             reinterpret_cast<uint16_t*>(p));
}

// The same names as for f32, so that a kernel is written once for both.

HWY_INLINE void store(Vector v, bfloat16* p) { store_upper_halves(rounded_words(v), p); }

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

/// Rounds what a kernel stores as bfloat16 by store(); other elements need no rounding.
struct PortableRounding {
  template <class Element>
  static HWY_INLINE void store(Vector v, Element* p) {
    HWY_NAMESPACE::store(v, p);
  }
};

#if HWY_TARGET <= HWY_AVX3

/// By the instruction of processors with AVX512_BF16, to the same bits but for subnormal numbers, which it
/// takes for zero, as threads that compute do. In assembly: Highway 1.0 does not know it, and the compiler
/// inlines no intrinsic of a processor beyond a kernel's own instruction set.
struct ProcessorRounding {
  using HalfTag = hn::Rebind<uint16_t, FloatTag>;

  static HWY_INLINE hn::Vec<HalfTag> halves_of(Vector v) {
    hn::Vec<HalfTag> halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves.raw) : "v"(v.raw));
    return halves;
  }
  static HWY_INLINE void store(Vector v, bfloat16* p) {
    hn::StoreU(halves_of(v), HalfTag(), reinterpret_cast<uint16_t*>(p));
  }
};

#endif

/// work(Rounding) with the fastest that this processor has.
template <class Work>
HWY_INLINE void with_rounding_to_bfloat16(const Work& work) {
#if HWY_TARGET <= HWY_AVX3
  if (__builtin_cpu_supports("avx512bf16")) return work(ProcessorRounding());
#endif
  work(PortableRounding());
}

HWY_INLINE Vector round_to_bfloat16(Vector v) {
  const hn::RebindToUnsigned<FloatTag> words;
  return hn::BitCast(float_tag, hn::And(rounded_words(v), hn::Set(words, 0xFFFF0000)));
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
