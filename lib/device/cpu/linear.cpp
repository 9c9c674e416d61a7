#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/parallel.hpp"

namespace gpt {

void CpuOps::linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation, Queue&) {
  require_f32("linear", {y, pre, x, w, b});
  const LinearShape shape{.rows = x.rows(), .in = x.columns(), .out = w.dim(0)};
  expects(w.dim(1) == shape.in && y.size() == shape.rows * shape.out && (!b || b.size() == shape.out));
  expects(!pre == (activation == Activation::none));
  const Tensor product = pre ? pre : y;
  products_.forward(product.data<float>(), x.data<float>(), w.data<float>(), b.data<float>(), shape);
  if (activation == Activation::none) return;
  parallel_ranges(threads_, y.size(), elementwise_grain, [&](Range range, int) {
    gelu(y.data<float>() + range.begin, pre.data<float>() + range.begin, range.size());
  });
}

void CpuOps::linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                                   Queue&) {
  require_f32("linear_backward_input", {dx, dy, w, pre});
  const LinearShape shape{.rows = dy.rows(), .in = w.dim(1), .out = w.dim(0)};
  expects(dy.columns() == shape.out && dx.size() == shape.rows * shape.in);
  expects(!pre == (activation == Activation::none));
  products_.backward_input(dx.data<float>(), dy.data<float>(), w.data<float>(), shape);
  if (activation == Activation::none) return;
  parallel_ranges(threads_, dx.size(), elementwise_grain, [&](Range range, int) {
    multiply_by_gelu_slope(dx.data<float>() + range.begin, pre.data<float>() + range.begin, range.size());
  });
}

void CpuOps::linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue&) {
  require_f32("linear_backward_weight", {dw, db, dy, x});
  const LinearShape shape{.rows = x.rows(), .in = x.columns(), .out = dy.columns()};
  expects(dw.size() == shape.out * shape.in && dy.rows() == shape.rows && (!db || db.size() == shape.out));
  products_.backward_weight(dw.data<float>(), db.data<float>(), dy.data<float>(), x.data<float>(), shape,
                            write);
}

}  // namespace gpt
