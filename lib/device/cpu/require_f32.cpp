#include "base/error.hpp"
#include "device/cpu/cpu_ops.hpp"

namespace gpt {

void require_f32(const char* operation, std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    validate(!tensor || tensor.dtype() == DType::f32,
             "{} on the CPU computes in f32 and was given {}: use --precision fp32", operation,
             name_of(tensor.dtype()));
}

}  // namespace gpt
