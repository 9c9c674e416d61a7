#include "device/cpu/attention_heads.hpp"
#include "device/cpu/thread_scratch.hpp"

#include <algorithm>
#include <cmath>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_forward.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/attention_amx-inl.hpp"

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Running softmax of a tile's queries (Milakov & Gimelshein 2018): largest score so far, sum of exponentials
/// relative to it, and the factor by which the last tile of keys scaled what stood before.
struct RunningSoftmax {
  HWY_ALIGN float largest[attention_tile];
  HWY_ALIGN float sum[attention_tile];
  HWY_ALIGN float rescale[attention_tile];
};

/// Turns scores into weights relative to the largest score so far, times the dropout factors where there are
/// any. In a diagonal tile keys behind the query get weight zero.
template <class Words>
HWY_INLINE void exponentiate_tile(float* scores, const ScoreTile& tile, const float* factors, float scale,
                                  RunningSoftmax& softmax) {
  const auto score_at = [&](int64_t place)
                            HWY_ATTR { return scaled_score<Words>(load(scores + place), scale); };
  for (int64_t q = 0; q < tile.padded_queries<Words>(); q += lanes) {
    const int64_t keys = tile.keys_before(q + lanes);
    const Vector before = load(softmax.largest + q);
    Vector largest = before;
    const int64_t seen_by_all = tile.keys_of_all(q);
    for_keys<1>(seen_by_all, keys, [&](int64_t k, auto masked) HWY_ATTR {
      const Vector score = score_at(k * attention_tile + q);
      largest = hn::Max(largest, masked ? hn::IfThenElse(may_see(q, k), score, before) : score);
    });
    const Vector rescale = exponential(hn::Sub(before, largest));
    Vector sum = hn::Mul(load(softmax.sum + q), rescale);
    const auto exponentiate = [&](int64_t k, auto masked) HWY_ATTR {
      const int64_t place = k * attention_tile + q;
      Vector weight = exponential(hn::Sub(score_at(place), largest));
      if constexpr (masked) weight = hn::IfThenElseZero(may_see(q, k), weight);
      sum = hn::Add(sum, weight);
      return factors == nullptr ? weight : hn::Mul(weight, load(factors + place));
    };
    for_keys<Words::terms>(seen_by_all, keys, [&](int64_t k, auto masked) HWY_ATTR {
      typename Words::Weights weights[Words::terms];
      weights[0] = Words::rounded(exponentiate(k, masked));
      if constexpr (Words::terms > 1)
        weights[1] = Words::rounded(k + 1 < keys ? exponentiate(k + 1, masked) : broadcast(0.0F));
      Words::store_by_key(weights, scores + k * attention_tile + q);
    });
    for (int64_t k = round_up(keys, Words::terms); k < round_up(keys, Words::grain); k += Words::terms)
      store(broadcast(0.0F), scores + k * attention_tile + q);
    store(largest, softmax.largest + q);
    store(sum, softmax.sum + q);
    store(rescale, softmax.rescale + q);
  }
}

/// log Σ e^score of each query; the largest score alone gives the sum a term of 1.
HWY_INLINE void store_log_sums(float* out, const RunningSoftmax& softmax, int64_t queries) {
  const auto log_sum = [&](int64_t q) HWY_ATTR {
    return hn::Add(load(softmax.largest + q), hn::Log(float_tag, load(softmax.sum + q)));
  };
  for_vectors(
      0, queries, [&](int64_t q) HWY_ATTR { store(log_sum(q), out + q); },
      [&](int64_t q, int64_t n) HWY_ATTR { store_n(log_sum(q), out + q, n); });
}

HWY_INLINE void scale_row(float* row, float factor, int64_t size) {
  for (int64_t d = 0; d < size; d += lanes) store(hn::Mul(load(row + d), broadcast(factor)), row + d);
}

/// Multiplies what stands in `output` for each query by its factor.
template <class Words>
HWY_INLINE void scale_output(float* output, const float* factors, int64_t queries,
                             const AttentionShape& shape) {
  const int64_t padded = shape.padded();
  if constexpr (Words::transposes_sums_over_keys) {
    for (int64_t q = 0; q < queries; q += lanes) {
      const Vector factor = load(factors + q);
      for (int64_t d = 0; d < padded; ++d) {
        float* place = output + d * attention_tile + q;
        store(hn::Mul(load(place), factor), place);
      }
    }
  } else {
    for (int64_t i = 0; i < queries; ++i) scale_row(output + i * padded, factors[i], padded);
  }
}

/// Where a thread's scratch holds what.
struct ForwardScratch {
  ForwardScratch(ScratchCursor& scratch, const AttentionShape& shape)
      : keys(scratch.take(most_positions(shape) * shape.padded())),
        values(scratch.take(most_positions(shape) * shape.padded())),
        queries(scratch.take(attention_tile * shape.padded())),
        queries_transposed(scratch.take(shape.padded() * attention_tile)),
        output(scratch.take(attention_tile * shape.padded())),
        scores(scratch.take(attention_tile * attention_tile)),
        dropout(scratch.take(dropout_tile_floats)) {}

  float* keys;                ///< (T, padded) elements, and so on: words may hold two of them
  float* values;              ///< (T, padded)
  float* queries;             ///< (tile, padded)
  float* queries_transposed;  ///< (padded, tile)
  float* output;              ///< (tile, padded)
  float* scores;              ///< (tile, tile)
  float* dropout;
};

template <class Words, class Element>
void forward_head(const AttentionForward<Element>& attention, int64_t index, const ForwardScratch& s) {
  using Rounding = typename Words::Rounding;
  const AttentionShape& shape = attention.shape;
  const int64_t sequence = index / shape.heads;
  const int64_t head = index % shape.heads;
  const int64_t width = shape.width();
  const int64_t padded = shape.padded();
  const Element* q = attention.qkv + sequence * shape.positions * 3 * width + head * shape.head_size;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  Words::pack_rows(s.keys, q + width, 3 * width, shape.positions, shape, 1.0F);
  Words::pack_keys_to_sum(s.values, s.queries, q + 2 * width, 3 * width, shape);

  for (int64_t first = 0; first < shape.positions; first += attention_tile) {
    const int64_t queries = std::min(attention_tile, shape.positions - first);
    pack_query_tile<Words>(s.queries, s.queries_transposed, q + first * 3 * width, 3 * width, queries, shape,
                           scale);
    RunningSoftmax softmax;
    std::fill_n(softmax.largest, attention_tile, -1e30F);
    std::fill_n(softmax.sum, attention_tile, 0.0F);

    for (int64_t key = 0; key <= first; key += attention_tile) {
      const ScoreTile tile{first, key, queries, std::min(attention_tile, shape.positions - key)};
      score_product<Words>(s.scores, tile, s.keys + key * padded / Words::terms, s.queries_transposed, shape);
      const float* factors = dropout_tile<Words>(tile, shape, sequence, head, s.dropout);
      exponentiate_tile<Words>(s.scores, tile, factors, scale, softmax);
      if (key > 0) scale_output<Words>(s.output, softmax.rescale, queries, shape);
      sum_over_keys<Words>(s.output, tile, s.scores, s.values + key / Words::terms * padded, shape, key > 0);
    }

    const float* output = by_query<Words>(s.output, s.queries, queries, shape);
    for (int64_t i = 0; i < queries; ++i) {
      Element* y = attention.y + (sequence * shape.positions + first + i) * width + head * shape.head_size;
      unpack_rows<Rounding>(y, width, output + i * padded, 1, shape, 1.0F / softmax.sum[i]);
    }
    store_log_sums(attention.log_sum + index * shape.positions + first, softmax, queries);
  }
}

template <class Words, class Element>
void forward_heads(const AttentionForward<Element>& attention, Range heads, float* scratch) {
  ScratchCursor cursor(scratch);
  const ForwardScratch places(cursor, attention.shape);
  [[maybe_unused]] const typename Words::Scope scope;
  for (int64_t index = heads.begin; index < heads.end; ++index) forward_head<Words>(attention, index, places);
}

void attention_forward_f32(const AttentionForward<float>& attention, Range heads, float* scratch) {
  forward_heads<SingleWords>(attention, heads, scratch);
}

void attention_forward_bf16(const AttentionForward<bfloat16>& attention, Range heads, float* scratch) {
  with_words_of_bfloat16(attention.products, attention.shape, [&]<class Words>(Words) HWY_ATTR {
    forward_heads<Words>(attention, heads, scratch);
  });
}

int64_t attention_forward_scratch_simd(const AttentionShape& shape) {
  ScratchCursor cursor(nullptr);
  const ForwardScratch counted(cursor, shape);
  return cursor.taken();
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(attention_forward_f32);
HWY_EXPORT(attention_forward_bf16);
HWY_EXPORT(attention_forward_scratch_simd);

void attention_forward(const AttentionForward<float>& attention, Range heads, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_forward_f32)(attention, heads, scratch);
}

void attention_forward(const AttentionForward<bfloat16>& attention, Range heads, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_forward_bf16)(attention, heads, scratch);
}

int64_t attention_forward_scratch(const AttentionShape& shape) {
  return HWY_DYNAMIC_DISPATCH(attention_forward_scratch_simd)(shape);
}

}  // namespace gpt
#endif
