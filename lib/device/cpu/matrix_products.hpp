#pragma once

#include "device/buffer.hpp"
#include "device/ops.hpp"

#include <cstdint>
#include <memory>

namespace gpt {

/// Sizes of one linear layer's products: x (rows,in), w (out,in), y (rows,out).
struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;

  auto operator<=>(const LinearShape&) const = default;
};

/// The products of linear layers in f32, by oneDNN. What oneDNN prepares for a shape is kept, so that nothing
/// is created for a shape that was seen before. Which of oneDNN's forms computes a product follows from the
/// kind of product alone: a choice by timing would let two runs differ in bits.
class MatrixProducts {
public:
  MatrixProducts(Allocator& allocator, int threads);
  ~MatrixProducts();

  /// y = x·Wᵀ + b; b (out) may be null
  void forward(float* y, const float* x, const float* w, const float* b, const LinearShape& shape);

  /// dx = dy·W
  void backward_input(float* dx, const float* dy, const float* w, const LinearShape& shape);

  /// dw = or += dyᵀ·x; db = or += column sums of dy, may be null
  void backward_weight(float* dw, float* db, const float* dy, const float* x, const LinearShape& shape,
                       Write write);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
