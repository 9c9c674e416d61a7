#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/dropout.hpp"
#include "device/cpu/element_type.hpp"
#include "device/cpu/norm_rows.hpp"
#include "device/cpu/parallel.hpp"

#include <cmath>

namespace gpt {

void CpuOps::add_norm(Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor delta, Tensor weight,
                      Tensor bias, const Dropout& dropout, Queue&) {
  const int64_t width = x.columns();
  expects(y.size() == x.size() && weight.size() == width && mean.size() == x.rows());
  expects(!delta || (delta.size() == x.size() && sum.size() == x.size()));
  scratch_.reserve(width + dropout_slack);
  with_element_type(y.dtype(), [&]<class Element>(Element) {
    const NormForward<Element> norm{.sum = delta ? sum.data<float>() : nullptr,
                                    .y = y.data<Element>(),
                                    .mean = mean.data<float>(),
                                    .rstd = rstd.data<float>(),
                                    .x = x.data<float>(),
                                    .delta = delta.data<Element>(),
                                    .weight = weight.data<float>(),
                                    .bias = bias.data<float>(),
                                    .width = width,
                                    .positions = x.dim(1),
                                    .dropout = plan_dropout(dropout)};
    parallel_ranges(threads_, x.rows(), 1,
                    [&](Range rows, int thread) { norm_forward(norm, rows, scratch_.of(thread)); });
  });
}

void CpuOps::add_norm_backward(Tensor dx, Tensor d_delta, Tensor d_weight, Tensor d_bias, Tensor dy,
                               Tensor sum, Tensor mean, Tensor rstd, Tensor weight, const Dropout& dropout,
                               Write dx_write, Write write, Queue&) {
  const int64_t width = sum.columns();
  const int64_t rows = sum.rows();
  const int64_t blocks = ceil_div(rows, norm_row_block);
  const int64_t stride = round_up(width, 16);
  scratch_.reserve(width + dropout_slack);
  partials_.reserve(blocks * 2 * stride);
  float* partial = partials_.of(0);  // (blocks, 2, stride): weight and bias gradients of each block of rows
  with_element_type(dy.dtype(), [&]<class Element>(Element) {
    const NormBackward<Element> norm{.dx = dx.data<float>(),
                                     .d_delta = d_delta.data<Element>(),
                                     .dy = dy.data<Element>(),
                                     .sum = sum.data<float>(),
                                     .mean = mean.data<float>(),
                                     .rstd = rstd.data<float>(),
                                     .weight = weight.data<float>(),
                                     .width = width,
                                     .positions = sum.dim(1),
                                     .accumulate = dx_write == Write::accumulate,
                                     .dropout = plan_dropout(dropout)};
    parallel_ranges(threads_, rows, norm_row_block, [&](Range range, int thread) {
      for (int64_t row = range.begin; row < range.end; row += norm_row_block) {
        float* block = partial + row / norm_row_block * 2 * stride;
        norm_backward(norm, {row, std::min(row + norm_row_block, range.end)}, block, block + stride,
                      scratch_.of(thread));
      }
    });
  });
  const bool accumulate = write == Write::accumulate;
  parallel_ranges(threads_, width, 64, [&](Range columns, int) {
    add_partials(d_weight.data<float>(), partial, blocks, 2 * stride, columns, accumulate);
    if (d_bias) add_partials(d_bias.data<float>(), partial + stride, blocks, 2 * stride, columns, accumulate);
  });
}

}  // namespace gpt
