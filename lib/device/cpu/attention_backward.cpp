#include "device/cpu/attention_heads.hpp"
#include "device/cpu/thread_scratch.hpp"

#include <algorithm>
#include <cmath>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/attention_amx-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Where a thread's scratch holds what.
struct BackwardScratch {
  /// For words of so many terms.
  BackwardScratch(ScratchCursor& scratch, const AttentionShape& shape, int64_t terms)
      : keys(scratch.take(most_positions(shape) * shape.padded())),
        values(scratch.take(most_positions(shape) * shape.padded())),
        summed_keys(terms == 1 ? keys
                               : scratch.take(ceil_div(most_positions(shape), terms) * shape.padded())),
        d_keys(scratch.take(most_positions(shape) * shape.padded())),
        d_values(scratch.take(most_positions(shape) * shape.padded())),
        queries(scratch.take(attention_tile * shape.padded())),
        queries_transposed(scratch.take(shape.padded() * attention_tile)),
        dy(scratch.take(attention_tile * shape.padded())),
        dy_transposed(scratch.take(shape.padded() * attention_tile)),
        d_queries(scratch.take(attention_tile * shape.padded())),
        scores(scratch.take(attention_tile * attention_tile)),
        summed_scores(terms == 1 ? scores : scratch.take(attention_tile * attention_tile)),
        weights(scratch.take(attention_tile * attention_tile)),
        log_sum(scratch.take(attention_tile)),
        dy_dot_y(scratch.take(attention_tile)),
        dropout(scratch.take(dropout_tile_floats)) {}

  float* keys;                ///< (T, padded) elements, and so on: words may hold two of them
  float* values;              ///< (T, padded)
  float* summed_keys;         ///< (T, padded), for a product that sums over them
  float* d_keys;              ///< (T, padded)
  float* d_values;            ///< (T, padded)
  float* queries;             ///< (tile, padded)
  float* queries_transposed;  ///< (padded, tile)
  float* dy;                  ///< (tile, padded)
  float* dy_transposed;       ///< (padded, tile)
  float* d_queries;           ///< (tile, padded)
  float* scores;              ///< (tile, tile): scores, then their gradient
  float* summed_scores;       ///< (tile, tile): gradient of the scores, for a product that sums over keys
  float* weights;             ///< (tile, tile): gradient of the weights, then the weights themselves
  float* log_sum;             ///< (tile)
  float* dy_dot_y;            ///< (tile)
  float* dropout;
};

template <class Element>
HWY_INLINE float dot(const Element* a, const Element* b, int64_t size) {
  Vector sum = broadcast(0.0F);
  for_vectors(
      0, size, [&](int64_t i) HWY_ATTR { sum = hn::MulAdd(load(a + i), load(b + i), sum); },
      [&](int64_t i, int64_t n) HWY_ATTR { sum = hn::MulAdd(load_n(a + i, n), load_n(b + i, n), sum); });
  return sum_lanes(sum);
}

/// Zero weights and gradients of scores for the queries [q, q + lanes) and the keys behind the last one, up
/// to what sums take at a time.
template <class Words>
HWY_INLINE void clear_weights(const BackwardScratch& s, int64_t q, int64_t keys) {
  const auto zero = Words::rounded(broadcast(0.0F));
  for (int64_t k = keys; k < round_up(keys, Words::grain); ++k) {
    Words::store_by_query(zero, s.weights + k * attention_tile, q);
    Words::store_by_query(zero, s.scores + k * attention_tile, q);
  }
  for (int64_t k = round_up(keys, Words::terms); k < round_up(keys, Words::grain); k += Words::terms)
    store(broadcast(0.0F), s.summed_scores + k * attention_tile + q);
}

/// weights p = exp(score − log_sum), times the dropout factor for the sum that gave y;
/// d_score = p·(factor·d_weight − dy·y) (Dao et al. 2022, algorithm 4).
template <class Words>
HWY_INLINE void differentiate_tile(const BackwardScratch& s, const ScoreTile& tile, const float* factors,
                                   float scale) {
  for (int64_t q = 0; q < tile.padded_queries<Words>(); q += lanes) {
    const int64_t keys = tile.keys_before(q + lanes);
    const Vector log_sum = load(s.log_sum + q);
    const Vector dy_dot_y = load(s.dy_dot_y + q);
    const auto differentiate = [&](int64_t k, auto masked) HWY_ATTR {
      const int64_t place = k * attention_tile + q;
      Vector weight = exponential(hn::Sub(scaled_score<Words>(load(s.scores + place), scale), log_sum));
      if constexpr (masked) weight = hn::IfThenElseZero(may_see(q, k), weight);
      Vector d_weight = load(s.weights + place);
      Vector kept = weight;
      if (factors != nullptr) {
        const Vector factor = load(factors + place);
        d_weight = hn::Mul(d_weight, factor);
        kept = hn::Mul(weight, factor);
      }
      Vector d_score = hn::Mul(weight, hn::Sub(d_weight, dy_dot_y));
      if constexpr (masked) d_score = hn::IfThenElseZero(may_see(q, k), d_score);
      const auto d_rounded = Words::rounded(d_score);
      // In place: what is shorter than a float falls on queries that are done.
      Words::store_by_query(Words::rounded(kept), s.weights + k * attention_tile, q);
      if constexpr (Words::terms > 1) Words::store_by_query(d_rounded, s.scores + k * attention_tile, q);
      return d_rounded;
    };
    for_keys<Words::terms>(tile.keys_of_all(q), keys, [&](int64_t k, auto masked) HWY_ATTR {
      typename Words::Weights d_scores[Words::terms];
      d_scores[0] = differentiate(k, masked);
      if constexpr (Words::terms > 1)
        d_scores[1] = k + 1 < keys ? differentiate(k + 1, masked) : Words::rounded(broadcast(0.0F));
      Words::store_by_key(d_scores, s.summed_scores + k * attention_tile + q);
    });
    if constexpr (Words::grain > Words::terms) clear_weights<Words>(s, q, keys);
  }
}

template <class Words, class Element>
void backward_head(const AttentionBackward<Element>& attention, int64_t index, const BackwardScratch& s) {
  using Rounding = typename Words::Rounding;
  const AttentionShape& shape = attention.shape;
  const int64_t positions = shape.positions;
  const int64_t sequence = index / shape.heads;
  const int64_t head = index % shape.heads;
  const int64_t width = shape.width();
  const int64_t padded = shape.padded();
  const int64_t begin = sequence * positions * 3 * width + head * shape.head_size;
  const int64_t begin_y = sequence * positions * width + head * shape.head_size;
  const Element* q = attention.qkv + begin;
  Element* dq = attention.dqkv + begin;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  Words::pack_rows(s.keys, q + width, 3 * width, positions, shape, 1.0F);
  Words::pack_rows(s.values, q + 2 * width, 3 * width, positions, shape, 1.0F);
  if constexpr (Words::terms > 1)
    Words::pack_keys_to_sum(s.summed_keys, s.queries, q + width, 3 * width, shape);

  for (int64_t first = 0; first < positions; first += attention_tile) {
    const int64_t queries = std::min(attention_tile, positions - first);
    const Element* dy = attention.dy + begin_y + first * width;
    const Element* y = attention.y + begin_y + first * width;
    const Element* q_tile = q + first * 3 * width;
    pack_query_tile<Words>(s.queries, s.queries_transposed, q_tile, 3 * width, queries, shape, scale);
    pack_query_tile<Words>(s.dy, s.dy_transposed, dy, width, queries, shape, 1.0F);
    if constexpr (Words::terms > 1) {
      Words::pack_summed_rows(s.queries, q_tile, 3 * width, queries, shape);
      Words::pack_summed_rows(s.dy, dy, width, queries, shape);
    }
    for (int64_t i = 0; i < queries; ++i) s.dy_dot_y[i] = dot(dy + i * width, y + i * width, shape.head_size);
    std::copy_n(attention.log_sum + index * positions + first, queries, s.log_sum);
    std::fill(s.dy_dot_y + queries, s.dy_dot_y + attention_tile, 0.0F);
    std::fill(s.log_sum + queries, s.log_sum + attention_tile, 0.0F);

    for (int64_t key = 0; key <= first; key += attention_tile) {
      const ScoreTile tile{first, key, queries, std::min(attention_tile, positions - key)};
      score_product<Words>(s.scores, tile, s.keys + key * padded / Words::terms, s.queries_transposed, shape);
      score_product<Words>(s.weights, tile, s.values + key * padded / Words::terms, s.dy_transposed, shape);
      const float* factors = dropout_tile<Words>(tile, shape, sequence, head, s.dropout);
      differentiate_tile<Words>(s, tile, factors, scale);
      // The queries of the diagonal tile are the first that see its keys.
      sum_over_queries<Words>(s.d_values + key * padded, tile, s.weights, s.dy, shape, key < first);
      sum_over_queries<Words>(s.d_keys + key * padded, tile, s.scores, s.queries, shape, key < first);
      sum_over_keys<Words>(s.d_queries, tile, s.summed_scores, s.summed_keys + key / Words::terms * padded,
                           shape, key > 0);
    }
    unpack_rows<Rounding>(dq + first * 3 * width, 3 * width,
                          by_query<Words>(s.d_queries, s.queries, queries, shape), queries, shape, scale);
  }
  unpack_rows<Rounding>(dq + width, 3 * width, s.d_keys, positions, shape,
                        Words::scales_queries ? 1.0F : scale);
  unpack_rows<Rounding>(dq + 2 * width, 3 * width, s.d_values, positions, shape, 1.0F);
}

template <class Words, class Element>
void backward_heads(const AttentionBackward<Element>& attention, Range heads, float* scratch) {
  ScratchCursor cursor(scratch);
  const BackwardScratch places(cursor, attention.shape, Words::terms);
  [[maybe_unused]] const typename Words::Scope scope;
  for (int64_t index = heads.begin; index < heads.end; ++index)
    backward_head<Words>(attention, index, places);
}

void attention_backward_f32(const AttentionBackward<float>& attention, Range heads, float* scratch) {
  backward_heads<SingleWords>(attention, heads, scratch);
}

void attention_backward_bf16(const AttentionBackward<bfloat16>& attention, Range heads, float* scratch) {
  with_words_of_bfloat16(attention.products, attention.shape, [&]<class Words>(Words) HWY_ATTR {
    backward_heads<Words>(attention, heads, scratch);
  });
}

int64_t attention_backward_scratch_simd(const AttentionShape& shape) {
  ScratchCursor cursor(nullptr);
  const BackwardScratch counted(cursor, shape, 2);  // the most that any words need
  return cursor.taken();
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(attention_backward_f32);
HWY_EXPORT(attention_backward_bf16);
HWY_EXPORT(attention_backward_scratch_simd);

void attention_backward(const AttentionBackward<float>& attention, Range heads, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_backward_f32)(attention, heads, scratch);
}

void attention_backward(const AttentionBackward<bfloat16>& attention, Range heads, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_backward_bf16)(attention, heads, scratch);
}

int64_t attention_backward_scratch(const AttentionShape& shape) {
  return HWY_DYNAMIC_DISPATCH(attention_backward_scratch_simd)(shape);
}

}  // namespace gpt
#endif
