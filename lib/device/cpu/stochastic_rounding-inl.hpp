// Stochastic rounding of vectors to bfloat16, to the bits of gpt::round_stochastically.
#if defined(GPT_DEVICE_CPU_STOCHASTIC_ROUNDING_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_STOCHASTIC_ROUNDING_INL_HPP
#undef GPT_DEVICE_CPU_STOCHASTIC_ROUNDING_INL_HPP
#else
#define GPT_DEVICE_CPU_STOCHASTIC_ROUNDING_INL_HPP
#endif

#include "device/cpu/bfloat16-inl.hpp"
#include "device/cpu/philox-inl.hpp"
#include "device/weight_rounding.hpp"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Elements whose random bits are drawn before any of them is rounded: few enough for the first cache.
inline constexpr int64_t draw_elements = 1024;
/// Blocks are drawn whole, several at once, and the last vector reads whole.
inline constexpr int64_t draw_slack = rounding_block * blocks_at_once;

/// Draws for the elements [first, first + count) of a rounding, 16 bits each. They begin at the returned
/// place inside `buffer`, which holds count + draw_slack of them.
HWY_INLINE const uint16_t* draw(const WeightRounding& rounding, int64_t count, uint16_t* buffer) {
  const BlockTag blocks;
  const int64_t offset = rounding.first % rounding_block;
  const auto first_block = static_cast<uint64_t>(rounding.first / rounding_block);
  const auto step = static_cast<uint64_t>(rounding.step);
  for (int64_t i = 0; i < offset + count; i += rounding_block * blocks_at_once) {
    const Blocks block = hn::Iota(blocks, first_block + static_cast<uint64_t>(i / rounding_block));
    const RandomWords drawn =
        philox_blocks(rounding.seed ^ rounding_stream,
                      {block, hn::ShiftRight<32>(block), hn::Set(blocks, step), hn::Set(blocks, step >> 32)});
    hn::StoreInterleaved2(drawn.words01, drawn.words23, blocks, reinterpret_cast<uint64_t*>(buffer + i));
  }
  return buffer + offset;
}

/// Calls work(part, bits) for parts of `size` elements in order; bits[i] is for element part.begin + i, and
/// whole vectors of them may be read.
template <class Work>
HWY_INLINE void with_draws(const WeightRounding& rounding, int64_t size, const Work& work) {
  HWY_ALIGN uint16_t buffer[draw_elements + draw_slack];
  for (int64_t i = 0; i < size; i += draw_elements) {
    const Range part{i, std::min(i + draw_elements, size)};
    work(part, draw(rounding.from(part.begin), part.size(), buffer));
  }
}

HWY_INLINE void store_stochastically(Vector v, const uint16_t* bits, bfloat16* p) {
  const hn::RebindToUnsigned<FloatTag> words;
  const hn::Rebind<uint16_t, FloatTag> halves;
  const auto raw = hn::BitCast(words, v);
  const auto rounded = hn::Add(raw, hn::PromoteTo(words, hn::LoadU(halves, bits)));
  const auto quiet = hn::Or(raw, hn::Set(words, 0x400000));
  store_upper_halves(hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), quiet, rounded), p);
}

HWY_INLINE void store_stochastically_n(Vector v, const uint16_t* bits, bfloat16* p, int64_t n) {
  HWY_ALIGN bfloat16 part[lanes];
  store_stochastically(v, bits, part);
  std::memcpy(p, part, static_cast<size_t>(n) * sizeof(bfloat16));
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
