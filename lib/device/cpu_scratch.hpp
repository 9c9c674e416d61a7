#pragma once

#include "device/dtype.hpp"

#include <cstdint>

namespace gpt {

/// Sizes of a model's step that its operations' working memory follows from.
struct ScratchShape {
  int64_t sequences = 1;  ///< at a time
  int64_t context = 1;
  int64_t width = 1;
  int64_t heads = 1;
  int64_t rows_of_classifier = 1;  ///< of its weights: the padded vocabulary
  DType type = DType::f32;         ///< of activations
  bool accumulates = false;        ///< gradients of several micro-batches are added up
  int threads = 1;
};

/// Bytes that the CPU's operations take beside the tensors that they are given, the matrix library's own
/// among them, in a step of such sizes.
int64_t cpu_scratch_bytes(const ScratchShape& shape);

}  // namespace gpt
