#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>

namespace gpt {

/// −log softmax(logits)[target] over the first `vocabulary` values.
double cross_entropy(const float* logits, int64_t vocabulary, int64_t target);
double cross_entropy(const bfloat16* logits, int64_t vocabulary, int64_t target);

/// The same; the `padded` logits become the gradient of scale·loss, zero from `vocabulary` on.
double cross_entropy_gradient(float* logits, int64_t vocabulary, int64_t padded, int64_t target, float scale);
double cross_entropy_gradient(bfloat16* logits, int64_t vocabulary, int64_t padded, int64_t target,
                              float scale);

}  // namespace gpt
