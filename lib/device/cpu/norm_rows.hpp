#pragma once

#include "base/bfloat16.hpp"
#include "base/integers.hpp"
#include "device/cpu/dropout.hpp"

#include <cstdint>

namespace gpt {

/// Rows whose parameter gradients are summed together, whatever the number of threads.
constexpr int64_t norm_row_block = 32;

/// Arguments of Ops::add_norm; `delta` and `sum` null: x is normed; `bias` may be null. Element: float or
/// bfloat16.
template <class Element>
struct NormForward {
  float* sum;
  Element* y;
  float* mean;
  float* rstd;
  const float* x;
  const Element* delta;
  const float* weight;
  const float* bias;
  int64_t width;
  int64_t positions;  ///< rows of one sequence
  DropoutPlan dropout;
};

/// Arguments of Ops::add_norm_backward; `d_delta` may be null. Element: float or bfloat16.
template <class Element>
struct NormBackward {
  float* dx;
  Element* d_delta;
  const Element* dy;
  const float* sum;
  const float* mean;
  const float* rstd;
  const float* weight;
  int64_t width;
  int64_t positions;
  bool accumulate;  ///< onto dx
  DropoutPlan dropout;
};

/// `factors` is scratch of width + dropout_slack.
void norm_forward(const NormForward<float>& norm, Range rows, float* factors);
void norm_forward(const NormForward<bfloat16>& norm, Range rows, float* factors);

/// d_weight and d_bias (width, up to the next multiple of 16) are overwritten with these rows' part.
void norm_backward(const NormBackward<float>& norm, Range rows, float* d_weight, float* d_bias,
                   float* factors);
void norm_backward(const NormBackward<bfloat16>& norm, Range rows, float* d_weight, float* d_bias,
                   float* factors);

/// out[columns] = or += Σ over b of partial[b·stride + column], in order.
void add_partials(float* out, const float* partial, int64_t count, int64_t stride, Range columns,
                  bool accumulate);

}  // namespace gpt
