#pragma once

#include "base/integers.hpp"
#include "device/cpu/dropout.hpp"

#include <cstdint>

namespace gpt {

/// Queries and keys of a tile of scores.
constexpr int64_t attention_tile = 64;

struct AttentionShape {
  int64_t positions;  ///< T
  int64_t heads;      ///< H
  int64_t head_size;  ///< C/H
  DropoutPlan dropout;

  int64_t width() const { return heads * head_size; }
  /// Head size rounded up to whole vectors of any instruction set.
  int64_t padded() const { return round_up(head_size, 16); }
};

/// Floats of scratch that a thread needs.
int64_t attention_forward_scratch(const AttentionShape& shape);
int64_t attention_backward_scratch(const AttentionShape& shape);

/// Arguments of Ops::attention.
struct AttentionForward {
  float* y;
  float* log_sum;
  const float* qkv;
  AttentionShape shape;
};

/// Arguments of Ops::attention_backward.
struct AttentionBackward {
  float* dqkv;
  const float* dy;
  const float* y;
  const float* qkv;
  const float* log_sum;
  AttentionShape shape;
};

/// Head i of the batch is head i % H of sequence i / H.
void attention_forward(const AttentionForward& attention, Range heads, float* scratch);
void attention_backward(const AttentionBackward& attention, Range heads, float* scratch);

/// y = softmax(q·kᵀ·scale)·v of one query.  keys, values (count,head_size) with rows `stride` apart; `scores`
/// is scratch of count
void attend(float* y, const float* q, const float* keys, const float* values, int64_t count, int64_t stride,
            int64_t head_size, float scale, float* scores);

}  // namespace gpt
