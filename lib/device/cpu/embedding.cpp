#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/dropout.hpp"
#include "device/cpu/element_type.hpp"
#include "device/cpu/embedding_rows.hpp"
#include "device/cpu/parallel.hpp"

#include <algorithm>

namespace gpt {

void CpuOps::embed(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, int64_t first_position,
                   const Dropout& dropout, Queue&) {
  const int64_t width = x.columns();
  const int64_t positions = tokens.columns();
  expects(tokens.size() == x.rows() && wte.dim(1) == width && wpe.dim(1) == width);
  expects(first_position >= 0 && first_position + positions <= wpe.dim(0));
  const DropoutPlan plan = plan_dropout(dropout);
  scratch_.reserve(width + dropout_slack);
  with_element_type(wte.dtype(), [&]<class Element>(Element) {
    parallel_ranges(threads_, x.rows(), 1, [&](Range rows, int thread) {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t position = row % positions;
        const int64_t token = tokens.data<int32_t>()[row];
        expects(token >= 0 && token < wte.dim(0));
        float* out = x.data<float>() + row * width;
        add_rows(out, wte.data<Element>() + token * width,
                 wpe.data<Element>() + (first_position + position) * width, width);
        if (plan.active())
          drop_elements(out, plan, row / positions, position * width, width, scratch_.of(thread));
      }
    });
  });
}

void CpuOps::embed_backward(Tensor d_wte, Tensor d_wpe, Tensor dx, Tensor tokens, const Dropout& dropout,
                            Write wpe_write, Queue&) {
  const int64_t width = dx.columns();
  const int64_t rows = dx.rows();
  const int64_t positions = tokens.columns();
  expects(tokens.size() == rows && d_wte.dim(1) == width && d_wpe.dim(1) == width);
  expects(positions <= d_wpe.dim(0));
  const DropoutPlan plan = plan_dropout(dropout);
  float* gradient = dx.data<float>();
  if (plan.active()) {
    scratch_.reserve(width + dropout_slack);
    parallel_ranges(threads_, rows, 1, [&](Range range, int thread) {
      for (int64_t row = range.begin; row < range.end; ++row)
        drop_elements(gradient + row * width, plan, row / positions, row % positions * width, width,
                      scratch_.of(thread));
    });
  }
  // Rows of one token are added by one thread, which walks over all rows: so threads share columns, not rows.
  parallel_ranges(threads_, width, 16, [&](Range columns, int) {
    scatter_rows(d_wte.data<float>(), gradient, tokens.data<int32_t>(), rows, width, columns);
  });
  parallel_ranges(threads_, d_wpe.dim(0), 1, [&](Range range, int) {
    for (int64_t position = range.begin; position < range.end; ++position) {
      float* out = d_wpe.data<float>() + position * width;
      if (wpe_write == Write::overwrite) std::fill_n(out, width, 0.0F);
      if (position >= positions) continue;
      for (int64_t row = position; row < rows; row += positions)
        add_rows(out, out, gradient + row * width, width);
    }
  });
}

}  // namespace gpt
