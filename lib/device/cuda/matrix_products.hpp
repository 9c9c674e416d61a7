#pragma once

#include "device/cuda/cuda_queue.hpp"
#include "device/cuda/handles.hpp"
#include "device/dtype.hpp"

#include <array>
#include <cstdint>
#include <map>

namespace gpt {

/// A matrix as cuBLASLt sees it: column-major, so that a row-major array of (r,c) is one of c rows and r
/// columns.
struct ColumnMatrix {
  void* data = nullptr;
  DType type = DType::f32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;   ///< between the matrices of a batch, in elements
  int64_t leading = 0;  ///< elements from a column to the next; 0: rows
};

/// What is done to a product's results before they are written.
enum class Epilogue {
  none,
  bias,         ///< + bias, a value for each row, of the result's type
  gelu,         ///< + bias if there is one; written to aux; then GELU
  gelu_slope,   ///< times GELU'(aux)
  column_sums,  ///< bias[j] = Σ over the inner dimension of op(B)'s column j, f32
};

/// d = op(a)·op(b), or += if it accumulates; a batch of them. aux has d's shape and type, without a gap.
struct Product {
  bool transpose_a = false, transpose_b = false;
  ColumnMatrix a, b, d;
  int64_t batch = 1;
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  void* bias = nullptr;
  void* aux = nullptr;
};

/// Matrix products by cuBLASLt, summed in f32. The algorithm for a shape is chosen once, by the library's
/// rules and never by timing, and kept with its descriptors.
class MatrixProducts {
public:
  /// @param tf32  f32 operands may be cut to TF32
  explicit MatrixProducts(bool tf32);

  /// Starts the product; false, with nothing done, if the library has no algorithm with that epilogue.
  bool try_multiply(const Product& product, CudaQueue& queue);
  /// Starts a product whose epilogue every shape has: none.
  void multiply(const Product& product, CudaQueue& queue);

private:
  /// All that an algorithm may depend on.
  using Key = std::array<int64_t, 27>;

  struct Plan {
    MatmulHandle product;
    MatrixLayoutHandle a, b, d;
    cublasLtMatmulAlgo_t algorithm{};
    bool possible = false;
  };

  static Key key_of(const Product& product);
  Plan make_plan(const Product& product) const;

  bool tf32_;
  CublasHandle library_;
  std::map<Key, Plan> plans_;
};

}  // namespace gpt
