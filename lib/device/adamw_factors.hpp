#pragma once

#include "device/ops.hpp"

#include <cmath>

namespace gpt {

/// What AdamW's kernels multiply by, beside the clipping factor.
struct AdamWFactors {
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float rate;  ///< lr / (1 − β1ᵗ)
  float root;  ///< 1 / √(1 − β2ᵗ)
  float eps;
  float decay;  ///< 1 − lr·weight_decay
};

inline AdamWFactors adamw_factors(const AdamWStep& step) {
  const double beta1 = static_cast<double>(step.beta1), beta2 = static_cast<double>(step.beta2);
  const double lr = static_cast<double>(step.lr), count = static_cast<double>(step.step);
  return {.beta1 = step.beta1,
          .one_minus_beta1 = static_cast<float>(1.0 - beta1),
          .beta2 = step.beta2,
          .one_minus_beta2 = static_cast<float>(1.0 - beta2),
          .rate = static_cast<float>(lr / (1.0 - std::pow(beta1, count))),
          .root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, count))),
          .eps = step.eps,
          .decay = static_cast<float>(1.0 - lr * static_cast<double>(step.weight_decay))};
}

}  // namespace gpt
