#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/element_type.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/parallel.hpp"
#include "device/cpu/row_products.hpp"

#include <algorithm>

namespace gpt {
namespace {

/// Calls work(part of y, part of x, elements) on all threads, for float or bfloat16.
template <class Work>
void by_element(int threads, Tensor y, Tensor x, const Work& work) {
  with_element_type(y.dtype(), [&]<class Element>(Element) {
    parallel_ranges(threads, y.size(), elementwise_grain, [&](Range range, int) {
      work(y.data<Element>() + range.begin, x.data<Element>() + range.begin, range.size());
    });
  });
}

/// Outputs of a few rows that one thread takes at least: whole cache lines, and so much of W that waking
/// another thread pays.
int64_t outputs_grain(int64_t in) {
  constexpr int64_t line = 32, weights = 8192;
  return round_up(std::max(line, ceil_div(weights, in)), line);
}

}  // namespace

void CpuOps::linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation, Queue& queue) {
  const LinearShape shape{.rows = x.rows(), .in = x.columns(), .out = w.dim(0)};
  expects(w.dim(1) == shape.in && y.size() == shape.rows * shape.out && (!b || b.size() == shape.out));
  expects(!pre == (activation == Activation::none));
  expect_activations({x, w});
  expect_activations({y, pre});
  expects(y.dtype() == x.dtype() || (y.dtype() == DType::f32 && activation == Activation::none));
  if (shape.rows <= few_rows) {
    linear_of_few_rows(y, pre, x, w, b, shape);
    return;
  }
  products_.forward(pre ? pre : y, x, w, b, shape);
  if (activation != Activation::none) activate(y, pre, activation, queue);
}

void CpuOps::activate(Tensor y, Tensor pre, Activation activation, Queue&) {
  expects(activation == Activation::gelu && y.size() == pre.size());
  expect_activations({y, pre});
  by_element(threads_, y, pre, [](auto* to, const auto* from, int64_t size) { gelu(to, from, size); });
}

void CpuOps::linear_of_few_rows(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b,
                                const LinearShape& shape) {
  const bool widens = x.dtype() == DType::bf16, rounds = y.dtype() == DType::bf16;
  const int64_t wide_x = widens ? x.size() : 0;
  partials_.reserve(round_up(wide_x, 16) + (rounds ? y.size() : 0));
  float* const rows = widens ? partials_.of(0) : x.data<float>();
  if (widens) widen_bfloat16(rows, x.data<bfloat16>(), x.size());
  float* const sums = rounds ? partials_.of(0) + round_up(wide_x, 16) : (pre ? pre : y).data<float>();

  const auto finish = [&](Range outputs) {
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int64_t first = row * shape.out + outputs.begin;
      if (rounds) round_to_bfloat16((pre ? pre : y).data<bfloat16>() + first, sums + first, outputs.size());
      if (!pre) continue;
      with_element_type(y.dtype(), [&]<class Element>(Element) {
        gelu(y.data<Element>() + first, pre.data<Element>() + first, outputs.size());
      });
    }
  };
  with_element_type(w.dtype(), [&]<class Weight>(Weight) {
    const RowProducts<Weight> products{.y = sums,
                                       .x = rows,
                                       .w = w.data<Weight>(),
                                       .b = b.data<float>(),
                                       .rows = shape.rows,
                                       .in = shape.in,
                                       .out = shape.out};
    parallel_ranges(threads_, shape.out, outputs_grain(shape.in), [&](Range outputs, int) {
      multiply_rows(products, outputs);
      finish(outputs);
    });
  });
}

void CpuOps::linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                                   Queue&) {
  const LinearShape shape{.rows = dy.rows(), .in = w.dim(1), .out = w.dim(0)};
  expects(dy.columns() == shape.out && dx.size() == shape.rows * shape.in);
  expects(!pre == (activation == Activation::none));
  expect_activations({dx, dy, w, pre});
  products_.backward_input(dx, dy, w, shape);
  if (activation != Activation::none)
    by_element(threads_, dx, pre,
               [](auto* d, const auto* x, int64_t size) { multiply_by_gelu_slope(d, x, size); });
}

void CpuOps::linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue&) {
  const LinearShape shape{.rows = x.rows(), .in = x.columns(), .out = dy.columns()};
  expects(dw.size() == shape.out * shape.in && dy.rows() == shape.rows && (!db || db.size() == shape.out));
  expect_activations({dy, x});
  products_.backward_weight(dw, db, dy, x, shape, write);
}

}  // namespace gpt
