// Philox on vectors: the factors by which dropout multiplies a run of elements.
#if defined(GPT_DEVICE_CPU_DROPOUT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_DROPOUT_INL_HPP
#undef GPT_DEVICE_CPU_DROPOUT_INL_HPP
#else
#define GPT_DEVICE_CPU_DROPOUT_INL_HPP
#endif

#include "device/cpu/dropout.hpp"
#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// One Philox block per 64-bit lane. A word of a block stands in the lower half of its lane; what the upper
/// half holds does not matter to the widening products.
using BlockTag = hn::CappedTag<uint64_t, 8>;
using WordTag = hn::Repartition<uint32_t, BlockTag>;
using Blocks = hn::Vec<BlockTag>;
inline constexpr int64_t blocks_at_once = hn::MaxLanes(BlockTag());

HWY_INLINE Blocks product(Blocks a, uint32_t factor) {
  return hn::MulEven(hn::BitCast(WordTag(), a), hn::Set(WordTag(), factor));
}

/// Factors (0 or the scale) of the 4·blocks_at_once elements from element 4·first_block on.
HWY_INLINE void write_factors(const DropoutPlan& plan, uint32_t sequence, uint32_t first_block,
                              float* factors) {
  const BlockTag blocks;
  const WordTag words;
  Blocks c0 = hn::Iota(blocks, first_block);
  Blocks c1 = hn::Set(blocks, sequence);
  Blocks c2 = hn::Set(blocks, plan.site);
  Blocks c3 = hn::Set(blocks, plan.step);
  uint32_t key_low = static_cast<uint32_t>(plan.key);
  uint32_t key_high = static_cast<uint32_t>(plan.key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Blocks product0 = product(c0, 0xD2511F53);
    const Blocks product1 = product(c2, 0xCD9E8D57);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(blocks, key_low));
    c1 = product1;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(blocks, key_high));
    c3 = product0;
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  const Blocks low = hn::Set(blocks, 0xFFFFFFFF);
  const Blocks words01 = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
  const Blocks words23 = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
  const auto threshold = hn::Set(words, plan.threshold);
  const auto scale = hn::BitCast(words, hn::Set(hn::RebindToFloat<WordTag>(), plan.scale));
  const auto factor = [&](Blocks pair) HWY_ATTR {
    const auto bits = hn::BitCast(words, pair);
    return hn::BitCast(blocks, hn::IfThenZeroElse(hn::Lt(bits, threshold), scale));
  };
  hn::StoreInterleaved2(factor(words01), factor(words23), blocks, reinterpret_cast<uint64_t*>(factors));
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
