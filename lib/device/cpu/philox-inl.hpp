// Philox on vectors, to the bits of gpt::philox.
#if defined(GPT_DEVICE_CPU_PHILOX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_PHILOX_INL_HPP
#undef GPT_DEVICE_CPU_PHILOX_INL_HPP
#else
#define GPT_DEVICE_CPU_PHILOX_INL_HPP
#endif

#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// One Philox block per 64-bit lane. A word of a block stands in the lower half of its lane; what the upper
/// half holds does not matter to the widening products.
using BlockTag = hn::CappedTag<uint64_t, 8>;
using WordTag = hn::Repartition<uint32_t, BlockTag>;
using Blocks = hn::Vec<BlockTag>;
inline constexpr int64_t blocks_at_once = hn::MaxLanes(BlockTag());

/// A word of each block's counter.
struct Counters {
  Blocks c0, c1, c2, c3;
};

/// The random words of each block: two in a lane, the first of them in the lower half.
struct RandomWords {
  Blocks words01, words23;
};

HWY_INLINE Blocks widening_product(Blocks a, uint32_t factor) {
  return hn::MulEven(hn::BitCast(WordTag(), a), hn::Set(WordTag(), factor));
}

HWY_INLINE RandomWords philox_blocks(uint64_t key, Counters c) {
  const BlockTag blocks;
  uint32_t key_low = static_cast<uint32_t>(key);
  uint32_t key_high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Blocks product0 = widening_product(c.c0, 0xD2511F53);
    const Blocks product1 = widening_product(c.c2, 0xCD9E8D57);
    c.c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c.c1), hn::Set(blocks, key_low));
    c.c1 = product1;
    c.c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c.c3), hn::Set(blocks, key_high));
    c.c3 = product0;
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  const Blocks low = hn::Set(blocks, 0xFFFFFFFF);
  return {hn::Or(hn::And(c.c0, low), hn::ShiftLeft<32>(c.c1)),
          hn::Or(hn::And(c.c2, low), hn::ShiftLeft<32>(c.c3))};
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
