#pragma once

#include "base/bfloat16.hpp"
#include "device/adamw_factors.hpp"

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

/// With g times clip_scale: m = β1·m + (1−β1)·g; v = β2·v + (1−β2)·g²; p = decay·p − rate·m / (root·√v +
/// eps); half = p, rounded
void adamw_elements(const AdamWArrays& arrays, int64_t size, float clip_scale, const AdamWFactors& factors,
                    const WeightRounding& rounding);

/// Σ g², in double precision
double sum_of_squares(const float* g, int64_t size);

}  // namespace gpt
