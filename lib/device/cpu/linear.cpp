#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/parallel.hpp"

namespace gpt {
namespace {

/// Calls work(part of y, part of x, elements) on all threads, for float or bfloat16.
template <class Work>
void by_element(int threads, Tensor y, Tensor x, const Work& work) {
  parallel_ranges(threads, y.size(), elementwise_grain, [&](Range range, int) {
    if (y.dtype() == DType::bf16)
      work(y.data<bfloat16>() + range.begin, x.data<bfloat16>() + range.begin, range.size());
    else
      work(y.data<float>() + range.begin, x.data<float>() + range.begin, range.size());
  });
}

}  // namespace

void CpuOps::linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation, Queue& queue) {
  const LinearShape shape{.rows = x.rows(), .in = x.columns(), .out = w.dim(0)};
  expects(w.dim(1) == shape.in && y.size() == shape.rows * shape.out && (!b || b.size() == shape.out));
  expects(!pre == (activation == Activation::none));
  expect_activations({y, pre, x, w});
  products_.forward(pre ? pre : y, x, w, b, shape);
  if (activation != Activation::none) activate(y, pre, activation, queue);
}

void CpuOps::activate(Tensor y, Tensor pre, Activation activation, Queue&) {
  expects(activation == Activation::gelu && y.size() == pre.size());
  expect_activations({y, pre});
  by_element(threads_, y, pre, [](auto* to, const auto* from, int64_t size) { gelu(to, from, size); });
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
