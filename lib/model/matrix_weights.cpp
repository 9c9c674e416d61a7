#include "model/matrix_weights.hpp"

namespace gpt {

MatrixWeights::MatrixWeights(Device& device, Tensor params, DType type)
    : ops_(device.ops()), params_(params) {
  if (type == DType::bf16) copy_ = TensorBuffer(device, type, {params.size()});
}

void MatrixWeights::refresh(Range range, Queue& queue) {
  if (*copy_) ops_.cast(copy_->flat(range), params_.flat(range), queue);
}

}  // namespace gpt
