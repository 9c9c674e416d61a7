// The factors by which dropout multiplies a run of elements.
#if defined(GPT_DEVICE_CPU_DROPOUT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_DROPOUT_INL_HPP
#undef GPT_DEVICE_CPU_DROPOUT_INL_HPP
#else
#define GPT_DEVICE_CPU_DROPOUT_INL_HPP
#endif

#include "device/cpu/dropout.hpp"
#include "device/cpu/philox-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Factors (0 or the scale) of the 4·blocks_at_once elements from element 4·first_block on.
HWY_INLINE void write_factors(const DropoutPlan& plan, uint32_t sequence, uint32_t first_block,
                              float* factors) {
  const BlockTag blocks;
  const WordTag words;
  const RandomWords drawn = philox_blocks(plan.key, {hn::Iota(blocks, first_block), hn::Set(blocks, sequence),
                                                     hn::Set(blocks, plan.site), hn::Set(blocks, plan.step)});
  const auto threshold = hn::Set(words, plan.threshold);
  const auto scale = hn::BitCast(words, hn::Set(hn::RebindToFloat<WordTag>(), plan.scale));
  const auto factor = [&](Blocks pair) HWY_ATTR {
    const auto bits = hn::BitCast(words, pair);
    return hn::BitCast(blocks, hn::IfThenZeroElse(hn::Lt(bits, threshold), scale));
  };
  hn::StoreInterleaved2(factor(drawn.words01), factor(drawn.words23), blocks,
                        reinterpret_cast<uint64_t*>(factors));
}

/// Factors of `count` elements of sequence `index` of the tensor, from element `first` on. They begin at the
/// returned place inside `buffer`, which holds count + dropout_slack floats.
HWY_INLINE const float* dropout_factors(const DropoutPlan& plan, int64_t index, int64_t first, int64_t count,
                                        float* buffer) {
  const uint32_t sequence = plan.first_sequence + static_cast<uint32_t>(index);
  const int64_t offset = first % 4;
  for (int64_t i = 0; i < offset + count; i += 4 * blocks_at_once)
    write_factors(plan, sequence, static_cast<uint32_t>((first - offset + i) / 4), buffer + i);
  return buffer + offset;
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
