#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/elementwise.hpp"
#include "device/cuda/few_rows.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda/sum_rows.hpp"

// Every product has a form with an epilogue, and one without it that every shape has: what the library cannot
// do in its epilogue, a kernel does behind it.

namespace gpt {
namespace {

/// A row-major array (rows, columns) as cuBLASLt sees it.
ColumnMatrix as_columns(const Tensor& tensor) {
  return {.data = tensor.raw(), .type = tensor.dtype(), .rows = tensor.columns(), .columns = tensor.rows()};
}

/// The bias in the type of the results, as the epilogue wants it; null if there is none.
void* bias_of_type(const Tensor& b, DType type, CudaQueue& queue) {
  if (!b || type == DType::f32) return b.raw();
  std::byte* const scratch = queue.scratch(b.size() * size_of(type));
  convert(Tensor(scratch, type, {b.size()}), b, queue.stream());
  return scratch;
}

void sum_columns(Tensor db, Tensor dy, Write write, CudaQueue& queue) {
  const RowArray shape{.rows = dy.rows(), .columns = dy.columns(), .stride = dy.columns()};
  const int64_t blocks = ceil_div(shape.rows, sum_rows_block);
  auto* const partial = reinterpret_cast<float*>(queue.scratch(column_sum_bytes(shape.rows, shape.columns)));
  if (dy.dtype() == DType::bf16)
    sum_blocks_of_rows(partial, dy.data<bfloat16>(), shape, queue.stream());
  else
    sum_blocks_of_rows(partial, dy.data<float>(), shape, queue.stream());
  sum_rows(db.data<float>(), partial, {.rows = blocks, .columns = shape.columns, .stride = shape.columns},
           write == Write::accumulate, queue.stream());
}

}  // namespace

void CudaOps::linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation,
                     Queue& queue) {
  expects(w.dim(1) == x.columns() && y.size() == x.rows() * w.dim(0) && (!b || b.size() == w.dim(0)));
  expects(!pre == (activation == Activation::none) && x.dtype() == w.dtype());
  expects(y.dtype() == x.dtype() || (y.dtype() == DType::f32 && activation == Activation::none));
  CudaQueue& order = cuda_queue(queue);
  if (x.rows() <= few_rows) {
    linear_of_few_rows(y, pre, x, w, b, order.stream());
    return;
  }
  const Tensor out = pre ? pre : y;
  const Product product{.transpose_a = true,
                        .a = as_columns(w),
                        .b = as_columns(x),
                        .d = {.data = out.raw(), .type = out.dtype(), .rows = w.dim(0), .columns = x.rows()}};
  if (pre && fused_gelu_) {
    Product fused = product;
    fused.d.data = y.raw();
    fused.epilogue = Epilogue::gelu;
    fused.bias = bias_of_type(b, y.dtype(), order);
    fused.aux = pre.raw();
    if (products_.try_multiply(fused, order)) return;
  }
  Product with_bias = product;
  with_bias.epilogue = Epilogue::bias;
  with_bias.bias = bias_of_type(b, out.dtype(), order);
  if (!b || !products_.try_multiply(with_bias, order)) {
    products_.multiply(product, order);
    if (b) add_to_rows(out, b, order.stream());
  }
  if (pre) gelu(y, pre, order.stream());
}

void CudaOps::linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                                    Queue& queue) {
  expects(dy.columns() == w.dim(0) && dx.size() == dy.rows() * w.dim(1));
  expects(!pre == (activation == Activation::none));
  CudaQueue& order = cuda_queue(queue);
  const Product product{.a = as_columns(w),
                        .b = as_columns(dy),
                        .d = {.data = dx.raw(), .type = dx.dtype(), .rows = w.dim(1), .columns = dy.rows()}};
  if (pre) {
    Product fused = product;
    fused.epilogue = Epilogue::gelu_slope;
    fused.aux = pre.raw();
    if (products_.try_multiply(fused, order)) return;
  }
  products_.multiply(product, order);
  if (pre) multiply_by_gelu_slope(dx, pre, order.stream());
}

void CudaOps::linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue& queue) {
  expects(dw.size() == dy.columns() * x.columns() && dy.rows() == x.rows());
  expects(!db || db.size() == dy.columns());
  CudaQueue& order = cuda_queue(queue);
  const Product product{
      .transpose_b = true,
      .a = as_columns(x),
      .b = as_columns(dy),
      .d = {.data = dw.raw(), .type = dw.dtype(), .rows = x.columns(), .columns = dy.columns()},
      .accumulate = write == Write::accumulate};
  if (db) {
    // The epilogue overwrites: sums that are to be added wait in scratch.
    const bool adds = write == Write::accumulate;
    Product fused = product;
    fused.epilogue = Epilogue::column_sums;
    fused.bias = adds ? order.scratch(db.bytes()) : db.raw();
    if (products_.try_multiply(fused, order)) {
      if (adds) add_to(db, Tensor(fused.bias, DType::f32, {db.size()}), order.stream());
      return;
    }
    sum_columns(db, dy, write, order);
  }
  products_.multiply(product, order);
}

}  // namespace gpt
