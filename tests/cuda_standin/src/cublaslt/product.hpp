#pragma once

#include "descriptors.hpp"

namespace standin {

/// D = epilogue(alpha · op(A) · op(B) + beta · C), all by value: it runs later.
struct Product {
  Description desc;
  Layout a, b, c, d;

  int64_t rows() const { return int64_t(d.rows); }
  int64_t cols() const { return int64_t(d.cols); }
  int64_t depth() const { return int64_t(desc.trans_a == CUBLAS_OP_N ? a.cols : a.rows); }
  cudaDataType_t bias_type() const {
    return desc.bias_type < 0 ? cudaDataType_t(d.type) : cudaDataType_t(desc.bias_type);
  }
  cudaDataType_t aux_type() const {
    return desc.aux_type < 0 ? cudaDataType_t(d.type) : cudaDataType_t(desc.aux_type);
  }

  bool adds_bias() const { return (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool applies_gelu() const { return (desc.epilogue & CUBLASLT_EPILOGUE_GELU) != 0; }
  bool stores_aux() const { return applies_gelu() && uses_aux(); }
  bool applies_dgelu() const { return (desc.epilogue & 64) != 0; }
  bool uses_aux() const { return (desc.epilogue & 128) != 0; }
  bool has_dgelu_bias_gradient() const { return desc.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD; }
  bool has_bias_gradient() const {
    return has_dgelu_bias_gradient() || desc.epilogue == CUBLASLT_EPILOGUE_BGRADA ||
           desc.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
  bool uses_bias() const { return adds_bias() || has_bias_gradient(); }
  int64_t bias_length() const { return desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? cols() : rows(); }
};

struct Operands {
  const void* a;
  const void* b;
  const void* c;
  void* d;
};

/// INVALID_VALUE for shapes that do not fit, NOT_SUPPORTED for what cuBLASLt documents as such.
cublasStatus_t check_product(const Product& product);

void run_product(const Product& product, float alpha, float beta, const Operands& operands);

}  // namespace standin
