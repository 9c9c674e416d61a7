#pragma once

#include "base/bfloat16.hpp"
#include "base/integers.hpp"
#include "device/cuda/heads.hpp"
#include "device/dropout_plan.hpp"

#include <cstdint>
#include <cuda_runtime.h>

namespace gpt {

/// A piece of attention: the queries [queries) of the heads [heads), whose scores for the keys up to the last
/// query are there at once. They lie as (heads, queries, keys), keys = queries.end.
struct AttentionPiece {
  HeadShape shape;
  Range heads, queries;
  float scale = 1.0F;  ///< of scores: 1/√D
  DropoutPlan dropout;

  constexpr int64_t keys() const { return queries.end; }
  constexpr int64_t rows() const { return heads.size() * queries.size(); }
};

/// weights = dropout(softmax(scale·scores)), of queries to the keys that they may see, 0 to the others up to
/// the end of the piece; log_sum = log Σ exp(scale·score).
/// scores, weights as the piece says; log_sum (B,H,T)
void causal_softmax(float* weights, float* log_sum, const float* scores, const AttentionPiece& piece,
                    cudaStream_t stream);
void causal_softmax(bfloat16* weights, float* log_sum, const float* scores, const AttentionPiece& piece,
                    cudaStream_t stream);

/// What the backward pass of a piece reads and writes.
template <class Element>
struct SoftmaxBackward {
  Element* weights;        ///< (heads,T,T): rows [queries) are written, up to the piece's last key
  Element* d_scores;       ///< likewise: gradient of q·k
  const float* scores;     ///< as the piece says
  const float* d_weights;  ///< as the piece says: dy·v
  const float* log_sum;    ///< (B,H,T)
  const Element* dy;       ///< (B,T,C)
  const Element* y;        ///< (B,T,C)
};

/// weights as forward made them; d_scores = scale·softmax·(dropout'(d_weights) − dy·y), 0 where weights are.
void causal_softmax_backward(const SoftmaxBackward<float>& backward, const AttentionPiece& piece,
                             cudaStream_t stream);
void causal_softmax_backward(const SoftmaxBackward<bfloat16>& backward, const AttentionPiece& piece,
                             cudaStream_t stream);

}  // namespace gpt
