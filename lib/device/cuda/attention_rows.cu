#include "device/cuda/attention_rows.hpp"
#include "device/cuda/drop.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/reduce.hpp"

#include <cfloat>

namespace gpt {
namespace {

constexpr int row_threads = 128;  // a warp for each row of scores

/// One row of a piece: a query of a head.
struct Row {
  int64_t head;     ///< in the batch
  int64_t query;    ///< position
  int64_t scores;   ///< where its scores begin
  int64_t element;  ///< of dropout, for key 0

  __device__ Row(const AttentionPiece& piece, int64_t row)
      : head(piece.heads.begin + row / piece.queries.size()),
        query(piece.queries.begin + row % piece.queries.size()),
        scores(row * piece.keys()),
        element((head % piece.shape.heads * piece.shape.positions + query) * piece.shape.positions) {}

  __device__ int64_t sequence(const HeadShape& shape) const { return head / shape.heads; }
  __device__ int64_t statistic(const HeadShape& shape) const { return head * shape.positions + query; }
};

/// Largest value and Σ exp(value − largest) of what was seen so far.
struct Softmax {
  float most = -FLT_MAX;
  float sum = 0.0F;

  __device__ void add(float value) {
    const float next = fmaxf(most, value);
    sum = sum * expf(most - next) + expf(value - next);
    most = next;
  }
};

/// Of all lanes together.
__device__ Softmax over_warp(const Softmax& own) {
  const float most = warp_max(own.most);
  return {most, warp_sum(own.sum * expf(own.most - most))};
}

template <int N, class Element>
__global__ void __launch_bounds__(row_threads)
    causal_softmax_kernel(Element* weights, float* log_sum, const float* scores, AttentionPiece piece) {
  const int64_t index = grid_thread() / warp_lanes;
  if (index >= piece.rows()) return;
  const Row row(piece, index);
  const float* const from = scores + row.scores;
  Element* const to = weights + row.scores;
  const int64_t seen = row.query + 1;

  Softmax own;
  for (int64_t key = warp_lane() * N; key < seen; key += warp_lanes * N) {
    const Floats<N> values = load_pack<N>(from + key);
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (key + i < seen) own.add(values[i] * piece.scale);
  }
  const Softmax all = over_warp(own);
  const float inverse = 1.0F / all.sum;
  for (int64_t key = warp_lane() * N; key < piece.keys(); key += warp_lanes * N) {
    Floats<N> values{};
    if (key < seen) {
      values = load_pack<N>(from + key);
#pragma unroll
      for (int i = 0; i < N; ++i)
        values[i] = key + i < seen ? expf(values[i] * piece.scale - all.most) * inverse : 0.0F;
      drop(values, piece.dropout, row.sequence(piece.shape), row.element + key);
    }
    store_floats<N>(to + key, values);
  }
  if (warp_lane() == 0) log_sum[row.statistic(piece.shape)] = all.most + logf(all.sum);
}

template <int N, class Element>
__global__ void __launch_bounds__(row_threads)
    causal_softmax_backward_kernel(SoftmaxBackward<Element> backward, AttentionPiece piece) {
  const int64_t index = grid_thread() / warp_lanes;
  if (index >= piece.rows()) return;
  const HeadShape& shape = piece.shape;
  const Row row(piece, index);
  const int64_t output = (row.sequence(shape) * shape.positions + row.query) * shape.width() +
                         row.head % shape.heads * shape.head_size;
  float product = 0.0F;
  for (int64_t d = warp_lane(); d < shape.head_size; d += warp_lanes)
    product += to_float(backward.dy[output + d]) * to_float(backward.y[output + d]);
  const float mean = warp_sum(product);  // Σ weights·d_weights over the keys
  const float log_sum = backward.log_sum[row.statistic(shape)];

  const int64_t begin = ((row.head - piece.heads.begin) * shape.positions + row.query) * shape.positions;
  const int64_t seen = row.query + 1;
  for (int64_t key = warp_lane() * N; key < piece.keys(); key += warp_lanes * N) {
    Floats<N> weights{}, d_scores{};
    if (key < seen) {
      weights = load_pack<N>(backward.scores + row.scores + key);
      d_scores = load_pack<N>(backward.d_weights + row.scores + key);
      drop(d_scores, piece.dropout, row.sequence(shape), row.element + key);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const bool sees = key + i < seen;
        weights[i] = sees ? expf(weights[i] * piece.scale - log_sum) : 0.0F;
        d_scores[i] = sees ? weights[i] * (d_scores[i] - mean) * piece.scale : 0.0F;
      }
      drop(weights, piece.dropout, row.sequence(shape), row.element + key);
    }
    store_floats<N>(backward.weights + begin + key, weights);
    store_floats<N>(backward.d_scores + begin + key, d_scores);
  }
}

Grid grid_of(const AttentionPiece& piece) {
  return {.blocks = ceil_div(piece.rows() * warp_lanes, row_threads), .threads = row_threads};
}

/// Rows whose every element of 4 is aligned, dropout's among them.
bool rows_pack(const AttentionPiece& piece) {
  return piece.keys() % 4 == 0 && piece.shape.positions % 4 == 0;
}

template <class Element>
void softmax(Element* weights, float* log_sum, const float* scores, const AttentionPiece& piece,
             cudaStream_t stream) {
  with_pack<4>(rows_pack(piece), [&]<int N>(std::integral_constant<int, N>) {
    launch(causal_softmax_kernel<N, Element>, grid_of(piece), stream, weights, log_sum, scores, piece);
  });
}

template <class Element>
void softmax_backward(const SoftmaxBackward<Element>& backward, const AttentionPiece& piece,
                      cudaStream_t stream) {
  with_pack<4>(rows_pack(piece), [&]<int N>(std::integral_constant<int, N>) {
    launch(causal_softmax_backward_kernel<N, Element>, grid_of(piece), stream, backward, piece);
  });
}

}  // namespace

void causal_softmax(float* weights, float* log_sum, const float* scores, const AttentionPiece& piece,
                    cudaStream_t stream) {
  softmax(weights, log_sum, scores, piece, stream);
}
void causal_softmax(bfloat16* weights, float* log_sum, const float* scores, const AttentionPiece& piece,
                    cudaStream_t stream) {
  softmax(weights, log_sum, scores, piece, stream);
}

void causal_softmax_backward(const SoftmaxBackward<float>& backward, const AttentionPiece& piece,
                             cudaStream_t stream) {
  softmax_backward(backward, piece, stream);
}
void causal_softmax_backward(const SoftmaxBackward<bfloat16>& backward, const AttentionPiece& piece,
                             cudaStream_t stream) {
  softmax_backward(backward, piece, stream);
}

}  // namespace gpt
