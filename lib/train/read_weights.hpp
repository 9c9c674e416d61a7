#pragma once

#include "device/device.hpp"
#include "model/gpt.hpp"
#include "model/layout.hpp"

#include <string>

namespace gpt {

/// What a model reads of its weights: matrices in f32 or bf16, vectors in f32. Enough for evaluation and
/// sampling; in training ranks spread it (ZeRO-1).
class ReadWeights {
public:
  /// @param type    of matrices
  /// @param memory  may be shared; allocating there is collective then
  ReadWeights(const Layout& layout, DType type, Allocator& memory);

  FlatParameters with(Tensor gradients) const {
    return {.matrices = matrices_, .vectors = vectors_, .gradients = gradients};
  }

  DType type() const { return matrices_.dtype(); }
  /// @param elements  matrices or vectors
  Tensor at(Range elements) const;
  /// All elements, where all are f32.
  Tensor all() const { return f32_; }

  int64_t bytes() const { return f32_->bytes() + bfloat16_->bytes(); }

private:
  Layout layout_;
  TensorBuffer f32_;       // all elements, or beside bf16 the vectors
  TensorBuffer bfloat16_;  // matrices, or empty
  Tensor matrices_, vectors_;
};

/// Reads them from a checkpoint, block by block. Not collective; errors as read_state.
/// @param rounding  its first element is the Layout's
void load_weights(const std::string& file, const Layout& layout, const ReadWeights& weights,
                  const WeightRounding& rounding, Device& device, Queue& queue);

}  // namespace gpt
