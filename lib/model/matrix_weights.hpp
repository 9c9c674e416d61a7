#pragma once

#include "device/device.hpp"
#include "model/gpt.hpp"

#include <cstdint>

namespace gpt {

/// A run's parameters as matrix products read them: with bf16 a rounded copy beside the master parameters,
/// with f32 these themselves.
class MatrixWeights {
public:
  /// @param params  f32, flat; the copy is made by refresh() only. @param type  f32 or bf16
  MatrixWeights(Device& device, Tensor params, DType type);

  Tensor params() const { return params_; }
  Tensor matrices() const { return *copy_ ? *copy_ : params_; }
  /// bf16; empty with f32
  Tensor copy() const { return copy_; }
  int64_t copy_bytes() const { return copy_->bytes(); }

  /// The copy of elements [range) follows the parameters.
  void refresh(Range range, Queue& queue);
  void refresh(Queue& queue) { refresh({0, params_.size()}, queue); }

  FlatParameters with(Tensor gradients) const {
    return {.weights = params_, .matrices = matrices(), .gradients = gradients};
  }

private:
  Ops& ops_;
  Tensor params_;
  TensorBuffer copy_;
};

}  // namespace gpt
