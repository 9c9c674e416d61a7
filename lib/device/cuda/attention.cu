#include "device/cuda/attention_rows.hpp"
#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/scratch_areas.hpp"

#include <algorithm>
#include <cmath>

// Our own attention, by matrix products on tensor cores: heads are taken apart, so that a product is a batch
// over heads; scores exist for a piece of heads and queries at a time, in f32, and only up to the last key
// that the piece sees.

namespace gpt {
namespace {

HeadShape shape_of(const Tensor& qkv, int64_t heads, const Dropout& dropout) {
  const int64_t positions = qkv.dim(1), width = qkv.columns() / 3;
  expects(qkv.rank() == 3 && qkv.columns() == 3 * width && heads >= 1 && width % heads == 0);
  // A dropout counter has 32 bits for element/4.
  expects(dropout.rate == 0.0F || heads * positions * positions < int64_t{1} << 34);
  return {.positions = positions, .heads = heads, .head_size = width / heads};
}

Range block_from(int64_t begin, int64_t end, int64_t size) { return {begin, std::min(begin + size, end)}; }

/// Arrays of some heads, apart: (heads, T, D), or rows of scores.
struct HeadProducts {
  MatrixProducts& products;
  CudaQueue& queue;
  HeadShape shape;
  DType type;  ///< of activations
  int64_t heads;

  /// Rows [range) of an array (heads, T, D), as columns.
  ColumnMatrix rows_of(void* data, Range range) const {
    return {.data = static_cast<std::byte*>(data) + range.begin * shape.head_size * size_of(type),
            .type = type,
            .rows = shape.head_size,
            .columns = range.size(),
            .stride = shape.elements()};
  }

  /// scores (heads, queries, keys) f32 = a[queries]·b[keys]ᵀ; a, b (heads, T, D)
  void scores(float* to, void* a, void* b, Range queries) const {
    const int64_t keys = queries.end;
    products.multiply({.transpose_a = true,
                       .a = rows_of(b, {0, keys}),
                       .b = rows_of(a, queries),
                       .d = {.data = to,
                             .type = DType::f32,
                             .rows = keys,
                             .columns = queries.size(),
                             .stride = keys * queries.size()},
                       .batch = heads},
                      queue);
  }

  /// to[queries] = weights·b[keys]
  void sum_over_keys(void* to, const ColumnMatrix& weights, void* b, Range queries) const {
    products.multiply(
        {.a = rows_of(b, {0, queries.end}), .b = weights, .d = rows_of(to, queries), .batch = heads}, queue);
  }

  /// to[keys] = weightsᵀ·b, over the queries from the first key on; weights (heads, T, T)
  void sum_over_queries(void* to, void* weights, void* b, Range keys) const {
    products.multiply({.transpose_b = true,
                       .a = rows_of(b, {keys.begin, shape.positions}),
                       .b = square_part(weights, {keys.begin, shape.positions}, keys),
                       .d = rows_of(to, keys),
                       .batch = heads},
                      queue);
  }

  /// Rows [queries) and columns [keys) of an array (heads, T, T).
  ColumnMatrix square_part(void* data, Range queries, Range keys) const {
    const int64_t positions = shape.positions;
    return {.data = static_cast<std::byte*>(data) + (queries.begin * positions + keys.begin) * size_of(type),
            .type = type,
            .rows = keys.size(),
            .columns = queries.size(),
            .stride = positions * positions,
            .leading = positions};
  }
};

}  // namespace

void CudaOps::attention(Tensor y, Tensor log_sum, Tensor qkv, int64_t heads, const Dropout& dropout,
                        Queue& queue) {
  const HeadShape shape = shape_of(qkv, heads, dropout);
  expects(3 * y.size() == qkv.size() && log_sum.size() == qkv.rows() * heads);
  CudaQueue& order = cuda_queue(queue);
  if (is_fused(FusedAttention::Pass::forward,
               {.type = qkv.dtype(),
                .dropout = dropout.rate,
                .head_size = shape.head_size,
                .addresses = addresses_of({y, log_sum, qkv})},
               qkv.dim(0), shape)) {
    fused_->forward(y, log_sum, qkv, shape, order);
    return;
  }
  const int64_t all = qkv.dim(0) * heads, positions = shape.positions;
  const AttentionAreas at(shape, all, qkv.dtype(), attention_scratch_);
  std::byte* const scratch = order.scratch(at.total);
  auto* const scores = reinterpret_cast<float*>(scratch + at.scores);

  with_element(qkv.dtype(), [&]<class Element>(Element) {
    for (int64_t first = 0; first < all; first += at.heads) {
      const Range group = block_from(first, all, at.heads);
      const HeadProducts of{products_, order, shape, qkv.dtype(), group.size()};
      auto* const q = reinterpret_cast<Element*>(scratch + at.qkv);
      Element* const k = q + group.size() * shape.elements();
      Element* const v = k + group.size() * shape.elements();
      auto* const out = reinterpret_cast<Element*>(scratch + at.y);
      auto* const weights = reinterpret_cast<Element*>(scratch + at.weights);
      take_heads_apart(q, qkv.data<Element>(), shape, group, 3, order.stream());
      for (int64_t query = 0; query < positions; query += at.block) {
        const AttentionPiece piece{.shape = shape,
                                   .heads = group,
                                   .queries = block_from(query, positions, at.block),
                                   .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size)),
                                   .dropout = plan_dropout(dropout)};
        of.scores(scores, q, k, piece.queries);
        causal_softmax(weights, log_sum.data<float>(), scores, piece, order.stream());
        of.sum_over_keys(out,
                         {.data = weights,
                          .type = qkv.dtype(),
                          .rows = piece.keys(),
                          .columns = piece.queries.size(),
                          .stride = piece.keys() * piece.queries.size()},
                         v, piece.queries);
      }
      put_heads_together(y.data<Element>(), out, shape, group, 1, order.stream());
    }
  });
}

void CudaOps::attention_backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, int64_t heads,
                                 const Dropout& dropout, Queue& queue) {
  const HeadShape shape = shape_of(qkv, heads, dropout);
  expects(dqkv.size() == qkv.size() && 3 * y.size() == qkv.size() && dy.size() == y.size());
  CudaQueue& order = cuda_queue(queue);
  if (is_fused(FusedAttention::Pass::backward,
               {.type = qkv.dtype(),
                .dropout = dropout.rate,
                .head_size = shape.head_size,
                .addresses = addresses_of({dqkv, dy, y, qkv, log_sum})},
               qkv.dim(0), shape)) {
    fused_->backward(dqkv, dy, y, qkv, log_sum, shape, order);
    return;
  }
  const int64_t all = qkv.dim(0) * heads, positions = shape.positions;
  const AttentionBackwardAreas at(shape, all, qkv.dtype(), attention_scratch_);
  std::byte* const scratch = order.scratch(at.total);
  auto* const scores = reinterpret_cast<float*>(scratch + at.scores);
  auto* const d_weights = reinterpret_cast<float*>(scratch + at.d_weights);

  with_element(qkv.dtype(), [&]<class Element>(Element) {
    for (int64_t first = 0; first < all; first += at.heads) {
      const Range group = block_from(first, all, at.heads);
      const HeadProducts of{products_, order, shape, qkv.dtype(), group.size()};
      const int64_t step = group.size() * shape.elements();
      auto* const q = reinterpret_cast<Element*>(scratch + at.qkv);
      auto* const d_out = reinterpret_cast<Element*>(scratch + at.dy);
      auto* const dq = reinterpret_cast<Element*>(scratch + at.dqkv);
      auto* const weights = reinterpret_cast<Element*>(scratch + at.weights);
      auto* const d_scores = reinterpret_cast<Element*>(scratch + at.d_scores);
      take_heads_apart(q, qkv.data<Element>(), shape, group, 3, order.stream());
      take_heads_apart(d_out, dy.data<Element>(), shape, group, 1, order.stream());
      for (int64_t query = 0; query < positions; query += at.block) {
        const AttentionPiece piece{.shape = shape,
                                   .heads = group,
                                   .queries = block_from(query, positions, at.block),
                                   .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size)),
                                   .dropout = plan_dropout(dropout)};
        of.scores(scores, q, q + step, piece.queries);
        of.scores(d_weights, d_out, q + 2 * step, piece.queries);
        causal_softmax_backward(SoftmaxBackward<Element>{.weights = weights,
                                                         .d_scores = d_scores,
                                                         .scores = scores,
                                                         .d_weights = d_weights,
                                                         .log_sum = log_sum.data<float>(),
                                                         .dy = dy.data<Element>(),
                                                         .y = y.data<Element>()},
                                piece, order.stream());
        of.sum_over_keys(dq, of.square_part(d_scores, piece.queries, {0, piece.keys()}), q + step,
                         piece.queries);
      }
      for (int64_t key = 0; key < positions; key += at.block) {
        const Range keys = block_from(key, positions, at.block);
        of.sum_over_queries(dq + step, d_scores, q, keys);
        of.sum_over_queries(dq + 2 * step, weights, d_out, keys);
      }
      put_heads_together(dqkv.data<Element>(), dq, shape, group, 3, order.stream());
    }
  });
}

}  // namespace gpt
