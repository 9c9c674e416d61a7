#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>

namespace gpt {

/// Arrays of Ops::adamw; `half` may be null.
struct AdamWArrays {
  float* p;
  bfloat16* half;
  float* m;
  float* v;
  const float* g;
};

struct AdamWFactors {
  float gradient;  ///< clip scale
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float rate;  ///< lr / (1 − β1ᵗ)
  float root;  ///< 1 / √(1 − β2ᵗ)
  float eps;
  float decay;  ///< 1 − lr·weight_decay
};

/// m = β1·m + (1−β1)·g; v = β2·v + (1−β2)·g²; p = decay·p − rate·m / (root·√v + eps)
void adamw_elements(const AdamWArrays& arrays, int64_t size, const AdamWFactors& factors);

/// Σ g², in double precision
double sum_of_squares(const float* g, int64_t size);

}  // namespace gpt
