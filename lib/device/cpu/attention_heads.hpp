#pragma once

#include "base/bfloat16.hpp"
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

/// What attention multiplies bfloat16 by: matrix tiles where the processor has them and the head size is a
/// multiple of 32, else the dot products of pairs where it has those, else f32 words one by one. Each of the
/// others may be asked for.
enum class Bfloat16Products { best, pairs, single };

/// Arguments of Ops::attention; activations are of type Element, arithmetic is in f32.
template <class Element>
struct AttentionForward {
  Element* y;
  float* log_sum;
  const Element* qkv;
  AttentionShape shape;
  Bfloat16Products products = Bfloat16Products::best;
};

/// Arguments of Ops::attention_backward.
template <class Element>
struct AttentionBackward {
  Element* dqkv;
  const Element* dy;
  const Element* y;
  const Element* qkv;
  const float* log_sum;
  AttentionShape shape;
  Bfloat16Products products = Bfloat16Products::best;
};

/// Head i of the batch is head i % H of sequence i / H.
void attention_forward(const AttentionForward<float>& attention, Range heads, float* scratch);
void attention_forward(const AttentionForward<bfloat16>& attention, Range heads, float* scratch);
void attention_backward(const AttentionBackward<float>& attention, Range heads, float* scratch);
void attention_backward(const AttentionBackward<bfloat16>& attention, Range heads, float* scratch);

/// One query of one head, and the positions that it sees.
template <class Element>
struct AttentionSingle {
  Element* y;             ///< (head_size)
  const Element* q;       ///< (head_size)
  const Element* keys;    ///< (count,head_size)
  const Element* values;  ///< as keys
  int64_t count;
  int64_t head_size;
  float scale;
};

/// y = softmax(q·kᵀ·scale)·v; `scores` is scratch of count floats
void attend(const AttentionSingle<float>& attention, float* scores);
void attend(const AttentionSingle<bfloat16>& attention, float* scores);

}  // namespace gpt
