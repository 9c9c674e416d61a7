#pragma once

#include "base/bfloat16.hpp"
#include "base/contracts.hpp"
#include "device/dtype.hpp"

#include <type_traits>

namespace gpt {

/// work(Element()) with the C++ type of activations of that dtype: f32 or bf16.
template <class Work>
void with_element(DType dtype, const Work& work) {
  expects(dtype == DType::f32 || dtype == DType::bf16);
  if (dtype == DType::bf16)
    work(bfloat16());
  else
    work(float());
}

/// work(std::integral_constant<int, N>()) with the number of elements that kernels load together.
template <int N, class Work>
void with_pack(bool packs, const Work& work) {
  if (packs)
    work(std::integral_constant<int, N>());
  else
    work(std::integral_constant<int, 1>());
}

}  // namespace gpt
