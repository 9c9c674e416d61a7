#pragma once

#include "model/config.hpp"

#include <cstdint>

namespace gpt {

/// Floating-point operations that training a token is worth, as llm.c counts them: 6·N + 6·L·C·T, whatever is
/// computed in fact. N are all parameters, those of positions, norms and biases too, without padding; the
/// second term is attention's, the causal half of what Chowdhery et al. 2022 (PaLM, appendix B) count.
inline double model_flops_per_token(const GptConfig& model, int64_t parameters) {
  constexpr double forward_and_backward = 6.0;
  return forward_and_backward * static_cast<double>(parameters + model.layers * model.width * model.context);
}

}  // namespace gpt
