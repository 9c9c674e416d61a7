#include "base/error.hpp"
#include "device/cpu/cpu_ops.hpp"

#include <algorithm>

namespace gpt {

void require_f32(const char* operation, std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    validate(!tensor || tensor.dtype() == DType::f32,
             "{} on the CPU computes in f32 and was given {}: use --precision fp32", operation,
             name_of(tensor.dtype()));
}

void expect_activations(std::initializer_list<Tensor> tensors) {
  const DType type =
      std::ranges::find_if(tensors, [](const Tensor& t) { return static_cast<bool>(t); })->dtype();
  expects(type == DType::f32 || type == DType::bf16);
  for (const Tensor& tensor : tensors) expects(!tensor || tensor.dtype() == type);
}

}  // namespace gpt
