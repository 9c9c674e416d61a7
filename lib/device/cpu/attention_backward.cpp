#include "device/cpu/attention_heads.hpp"
#include "device/cpu/thread_scratch.hpp"

#include <algorithm>
#include <cmath>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/attention_tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Where a thread's scratch holds what.
struct BackwardScratch {
  BackwardScratch(ScratchCursor& scratch, const AttentionShape& shape)
      : keys(scratch.take(shape.positions * shape.padded())),
        values(scratch.take(shape.positions * shape.padded())),
        d_keys(scratch.take(shape.positions * shape.padded())),
        d_values(scratch.take(shape.positions * shape.padded())),
        queries(scratch.take(attention_tile * shape.padded())),
        queries_transposed(scratch.take(shape.padded() * attention_tile)),
        dy(scratch.take(attention_tile * shape.padded())),
        dy_transposed(scratch.take(shape.padded() * attention_tile)),
        d_queries(scratch.take(attention_tile * shape.padded())),
        scores(scratch.take(attention_tile * attention_tile)),
        weights(scratch.take(attention_tile * attention_tile)),
        log_sum(scratch.take(attention_tile)),
        dy_dot_y(scratch.take(attention_tile)),
        dropout(scratch.take(dropout_tile_floats)) {}

  float* keys;                ///< (T, padded)
  float* values;              ///< (T, padded)
  float* d_keys;              ///< (T, padded)
  float* d_values;            ///< (T, padded)
  float* queries;             ///< (tile, padded), times 1/√head_size
  float* queries_transposed;  ///< (padded, tile)
  float* dy;                  ///< (tile, padded)
  float* dy_transposed;       ///< (padded, tile)
  float* d_queries;           ///< (tile, padded)
  float* scores;              ///< (tile, tile): scores, then their gradient
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

/// weights p = exp(score − log_sum), times the dropout factor for the sum that gave y;
/// d_score = p·(factor·d_weight − dy·y) (Dao et al. 2022, algorithm 4).
template <bool kDiagonal>
HWY_INLINE void differentiate_tile(const BackwardScratch& s, const ScoreTile& tile, const float* factors) {
  for (int64_t q = 0; q < tile.padded_queries(); q += lanes) {
    const int64_t keys = tile.keys_before(q + lanes);
    const Vector log_sum = load(s.log_sum + q);
    const Vector dy_dot_y = load(s.dy_dot_y + q);
    for (int64_t k = 0; k < keys; ++k) {
      const int64_t place = k * attention_tile + q;
      Vector weight = exponential(hn::Sub(load(s.scores + place), log_sum));
      if constexpr (kDiagonal) weight = hn::IfThenElseZero(may_see(q, k), weight);
      Vector d_weight = load(s.weights + place);
      Vector kept = weight;
      if (factors != nullptr) {
        const Vector factor = load(factors + place);
        d_weight = hn::Mul(d_weight, factor);
        kept = hn::Mul(weight, factor);
      }
      Vector d_score = hn::Mul(weight, hn::Sub(d_weight, dy_dot_y));
      if constexpr (kDiagonal) d_score = hn::IfThenElseZero(may_see(q, k), d_score);
      store(kept, s.weights + place);
      store(d_score, s.scores + place);
    }
  }
}

template <class Element>
void backward_head(const AttentionBackward<Element>& attention, int64_t index, const BackwardScratch& s) {
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
  pack_rows(s.keys, q + width, 3 * width, positions, shape, 1.0F);
  pack_rows(s.values, q + 2 * width, 3 * width, positions, shape, 1.0F);
  std::fill_n(s.d_keys, positions * padded, 0.0F);
  std::fill_n(s.d_values, positions * padded, 0.0F);

  for (int64_t first = 0; first < positions; first += attention_tile) {
    const int64_t queries = std::min(attention_tile, positions - first);
    const Element* dy = attention.dy + begin_y + first * width;
    const Element* y = attention.y + begin_y + first * width;
    pack_query_tile(s.queries, s.queries_transposed, q + first * 3 * width, 3 * width, queries, shape, scale);
    pack_query_tile(s.dy, s.dy_transposed, dy, width, queries, shape, 1.0F);
    for (int64_t i = 0; i < queries; ++i) s.dy_dot_y[i] = dot(dy + i * width, y + i * width, shape.head_size);
    std::copy_n(attention.log_sum + index * positions + first, queries, s.log_sum);
    std::fill(s.dy_dot_y + queries, s.dy_dot_y + attention_tile, 0.0F);
    std::fill(s.log_sum + queries, s.log_sum + attention_tile, 0.0F);

    for (int64_t key = 0; key <= first; key += attention_tile) {
      const ScoreTile tile{first, key, queries, std::min(attention_tile, positions - key)};
      score_product(s.scores, tile, s.keys + key * padded, s.queries_transposed, shape);
      score_product(s.weights, tile, s.values + key * padded, s.dy_transposed, shape);
      const float* factors = dropout_tile(tile, shape, sequence, head, s.dropout);
      if (tile.diagonal())
        differentiate_tile<true>(s, tile, factors);
      else
        differentiate_tile<false>(s, tile, factors);
      sum_over_queries(s.d_values + key * padded, tile, s.weights, s.dy, shape);
      sum_over_queries(s.d_keys + key * padded, tile, s.scores, s.queries, shape);
      sum_over_keys(s.d_queries, tile, s.scores, s.keys + key * padded, shape, key > 0);
    }
    unpack_rows(dq + first * 3 * width, 3 * width, s.d_queries, queries, shape, scale);
  }
  unpack_rows(dq + width, 3 * width, s.d_keys, positions, shape, 1.0F);
  unpack_rows(dq + 2 * width, 3 * width, s.d_values, positions, shape, 1.0F);
}

template <class Element>
void backward_heads(const AttentionBackward<Element>& attention, Range heads, float* scratch) {
  ScratchCursor cursor(scratch);
  const BackwardScratch places(cursor, attention.shape);
  for (int64_t index = heads.begin; index < heads.end; ++index) backward_head(attention, index, places);
}

void attention_backward_f32(const AttentionBackward<float>& attention, Range heads, float* scratch) {
  backward_heads(attention, heads, scratch);
}

void attention_backward_bf16(const AttentionBackward<bfloat16>& attention, Range heads, float* scratch) {
  backward_heads(attention, heads, scratch);
}

int64_t attention_backward_scratch_simd(const AttentionShape& shape) {
  ScratchCursor cursor(nullptr);
  const BackwardScratch counted(cursor, shape);
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
