#pragma once

#include "base/bfloat16.hpp"
#include "base/contracts.hpp"
#include "device/dtype.hpp"

namespace gpt {

/// work(Element()) with the C++ type of activations of that dtype: f32 or bf16.
template <class Work>
void with_element_type(DType dtype, const Work& work) {
  expects(dtype == DType::f32 || dtype == DType::bf16);
  if (dtype == DType::bf16)
    work(bfloat16());
  else
    work(float());
}

}  // namespace gpt
