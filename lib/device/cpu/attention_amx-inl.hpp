// Attention's products of bfloat16 by the matrix tiles of processors with AMX.
#if defined(GPT_DEVICE_CPU_ATTENTION_AMX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_ATTENTION_AMX_INL_HPP
#undef GPT_DEVICE_CPU_ATTENTION_AMX_INL_HPP
#else
#define GPT_DEVICE_CPU_ATTENTION_AMX_INL_HPP
#endif

#include "device/cpu/amx.hpp"
#include "device/cpu/attention_pairs-inl.hpp"

// Highway numbers better sets of x86 lower: AVX-512 and beyond.
#if HWY_TARGET <= HWY_AVX3
#include "device/cpu/tile_blocks.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3

/// Words of two bfloat16 as PairWords has them, multiplied by tiles. A tile takes its left operand by rows
/// and its right one by pairs of rows. Weights lie by pairs of keys, which makes them right operands of sums
/// over keys: those have the transpose of keys or values on the left, and come out transposed.
struct TileWords : PairWords {
  static constexpr int64_t grain = tile_block;
  static constexpr bool transposes_sums_over_keys = true;
  using Scope = TileScope;

  static bool serve(const AttentionShape& shape) { return shape.head_size % tile_block == 0 && has_tiles(); }

  static HWY_INLINE void pack_summed_rows(float* out, const bfloat16* in, int64_t stride, int64_t rows,
                                          const AttentionShape& shape) {
    PairWords::pack_summed_rows(out, in, stride, rows, shape);
    const int64_t padded = shape.padded();
    std::fill(out + ceil_div(rows, terms) * padded, out + round_up(rows, grain) / terms * padded, 0.0F);
  }

  /// For each tile of keys the pairs of one key and the next, by columns: (padded, tile/2) words.
  static HWY_INLINE void pack_keys_to_sum(float* out, float* spare, const bfloat16* in, int64_t stride,
                                          const AttentionShape& shape) {
    const int64_t padded = shape.padded(), tile_words = attention_tile / terms;
    for (int64_t key = 0; key < shape.positions; key += attention_tile) {
      const int64_t keys = std::min(attention_tile, shape.positions - key);
      pack_summed_rows(spare, in + key * stride, stride, keys, shape);
      transpose(out + key / terms * padded, tile_words, spare, padded, round_up(keys, grain) / terms, padded);
    }
  }
};

template <>
HWY_INLINE void score_product<TileWords>(float* out, const ScoreTile& tile, const float* rows,
                                         const float* columns, const AttentionShape& shape) {
  const int64_t words = shape.padded() / TileWords::terms;
  for (int64_t q = 0; q < tile.queries; q += tile_block)
    multiply_blocks({out + q, attention_tile}, {rows, words}, {columns + q, attention_tile},
                    round_up(tile.keys_before(q + tile_block), tile_block), tile_block, words, false);
}

/// out(d, query), the transpose of what other words give
template <>
HWY_INLINE void sum_over_keys<TileWords>(float* out, const ScoreTile& tile, const float* weights,
                                         const float* rows, const AttentionShape& shape, bool accumulate) {
  constexpr int64_t terms = TileWords::terms;
  for (int64_t q = 0; q < tile.queries; q += tile_block)
    multiply_blocks({out + q, attention_tile}, {rows, attention_tile / terms},
                    {weights + q, terms * attention_tile}, shape.padded(), tile_block,
                    round_up(tile.keys_before(q + tile_block), tile_block) / terms, accumulate);
}

template <>
HWY_INLINE void sum_over_queries<TileWords>(float* out, const ScoreTile& tile, const float* weights,
                                            const float* rows, const AttentionShape& shape, bool accumulate) {
  constexpr int64_t terms = TileWords::terms;
  const int64_t padded = shape.padded();
  for (int64_t k = 0; k < tile.keys; k += tile_block) {
    const int64_t first = tile.diagonal() ? k : 0;
    multiply_blocks({out + k * padded, padded},
                    {weights + k * attention_tile + first / terms, attention_tile},
                    {rows + first / terms * padded, padded}, tile_block, padded,
                    round_up(tile.queries - first, tile_block) / terms, accumulate);
  }
}

#endif

/// work(Words) with the words that serve bfloat16 best on this processor, or those that are asked for.
template <class Work>
HWY_INLINE void with_words_of_bfloat16([[maybe_unused]] Bfloat16Products products,
                                       [[maybe_unused]] const AttentionShape& shape, const Work& work) {
#if HWY_TARGET <= HWY_AVX3
  if (products != Bfloat16Products::single && __builtin_cpu_supports("avx512bf16")) {
    if (products == Bfloat16Products::best && TileWords::serve(shape)) return work(TileWords());
    return work(PairWords());
  }
#endif
  work(SingleWords());
}

/// Positions, rounded up as the words that need most room have them.
HWY_INLINE int64_t most_positions(const AttentionShape& shape) {
#if HWY_TARGET <= HWY_AVX3
  if (TileWords::serve(shape)) return round_up(shape.positions, attention_tile);
#endif
  return shape.positions;
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
