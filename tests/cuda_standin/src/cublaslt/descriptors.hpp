#pragma once

#include <cstdint>
#include <cublasLt.h>

// What the opaque types of the interface hold.

struct cublasLtContext {
  int device;
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t trans_a = CUBLAS_OP_N;
  int32_t trans_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_batch_stride = 0;
  int32_t bias_type = -1;  ///< -1: the type of D
  void* aux = nullptr;
  int64_t aux_ld = 0;
  int64_t aux_batch_stride = 0;
  int32_t aux_type = -1;  ///< -1: the type of D
};

struct cublasLtMatrixLayoutOpaque_t {
  uint32_t type;
  uint64_t rows;
  uint64_t cols;
  int64_t ld;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batch_count = 1;
  int64_t batch_stride = 0;

  /// Place of an element, counted in elements.
  int64_t at(int64_t row, int64_t col) const {
    return order == CUBLASLT_ORDER_COL ? row + col * ld : row * ld + col;
  }
  size_t element_bytes() const { return type == CUDA_R_32F ? 4 : 2; }
  /// From the first to behind the last element, in bytes.
  size_t extent() const {
    const int64_t last = at(int64_t(rows) - 1, int64_t(cols) - 1) + (batch_count - 1) * batch_stride;
    return size_t(last + 1) * element_bytes();
  }
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  ///< of A, B, C, D in bytes, as documented when not set
};

namespace standin {

using Description = cublasLtMatmulDescOpaque_t;
using Layout = cublasLtMatrixLayoutOpaque_t;
using Preference = cublasLtMatmulPreferenceOpaque_t;

}  // namespace standin
