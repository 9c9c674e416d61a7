#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>
#include <cuda_runtime.h>

namespace gpt {

/// A tile of the classifier's logits.
template <class Element>
struct LogitsTile {
  Element* logits;         ///< (rows,padded)
  const int32_t* targets;  ///< (rows)
  int64_t rows;
  int64_t vocabulary;  ///< columns that count
  int64_t padded;
};

/// losses[row] = −log softmax(logits)[target]; f64
void cross_entropy(double* losses, const LogitsTile<float>& tile, cudaStream_t stream);
void cross_entropy(double* losses, const LogitsTile<bfloat16>& tile, cudaStream_t stream);

/// The same; logits become the gradient of scale·loss, zero from `vocabulary` on.
void cross_entropy_gradient(double* losses, const LogitsTile<float>& tile, float scale, cudaStream_t stream);
void cross_entropy_gradient(double* losses, const LogitsTile<bfloat16>& tile, float scale,
                            cudaStream_t stream);

}  // namespace gpt
