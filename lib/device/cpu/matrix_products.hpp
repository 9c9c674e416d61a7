#pragma once

#include "device/buffer.hpp"
#include "device/ops.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace gpt {

/// Sizes of one linear layer's products: x (rows,in), w (out,in), y (rows,out).
struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;

  auto operator<=>(const LinearShape&) const = default;
};

/// Whether this CPU multiplies bf16 without widening it first, as far as oneDNN makes use of that
/// (ONEDNN_MAX_CPU_ISA may hold it back).
bool has_bfloat16_instructions();

/// "oneDNN 2.6.3 with AVX512_BF16": what computes products here, and with which instructions at most. Their
/// bits depend on both.
std::string product_library();

/// Whether products of bf16 are computed in f32, from widened operands: oneDNN 2.6 falls back on a reference
/// implementation, or has none, where there is no AVX-512.
bool widens_bfloat16();

/// The products of linear layers by oneDNN. x, w, y and their gradients are all f32 or all bf16 (y of
/// forward may be f32 with x and w bf16), b, dw and db f32; sums are formed in f32. What oneDNN prepares for
/// a shape is kept, so that nothing is created for a shape that was seen before. Which of oneDNN's forms
/// computes a product follows from its kind and shape: a choice by timing would let two runs differ in bits.
///
/// Where oneDNN has no fast products of bf16 on this CPU, they are widened to f32 and back. The shape of a
/// tensor says nothing here but for its size.
class MatrixProducts {
public:
  MatrixProducts(Allocator& allocator, int threads);
  ~MatrixProducts();

  /// y = x·Wᵀ + b; b (out) may be empty
  void forward(Tensor y, Tensor x, Tensor w, Tensor b, const LinearShape& shape);

  /// dx = dy·W
  void backward_input(Tensor dx, Tensor dy, Tensor w, const LinearShape& shape);

  /// dw = or += dyᵀ·x; db = or += column sums of dy, may be empty
  void backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, const LinearShape& shape, Write write);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
