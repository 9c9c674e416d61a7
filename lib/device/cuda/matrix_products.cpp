#include "device/cuda/matrix_products.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "device/cuda/check.hpp"

#include <algorithm>
#include <bit>

namespace gpt {
namespace {

cudaDataType_t type_of(DType type) {
  expects(type == DType::f32 || type == DType::bf16);
  return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

int64_t leading_of(const ColumnMatrix& matrix) { return matrix.leading == 0 ? matrix.rows : matrix.leading; }

/// The largest power of two, up to what libraries ask for, that divides an address.
int64_t alignment_of(uintptr_t address) {
  constexpr int most = 8;
  return int64_t{1} << std::min(most, std::countr_zero(address | uintptr_t{1} << most));
}
int64_t alignment_of(const void* data) { return alignment_of(reinterpret_cast<uintptr_t>(data)); }

/// Of the first matrix and all others of a batch.
int64_t alignment_of(const ColumnMatrix& matrix) {
  const auto step = static_cast<uintptr_t>(matrix.stride * size_of(matrix.type));
  return std::min(alignment_of(matrix.data), alignment_of(step));
}

template <class Value>
void set(const MatmulHandle& product, cublasLtMatmulDescAttributes_t which, const Value& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(product.get(), which, &value, sizeof value));
}

template <class Value>
void set(const MatmulPreferenceHandle& preference, cublasLtMatmulPreferenceAttributes_t which,
         const Value& value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.get(), which, &value, sizeof value));
}

MatrixLayoutHandle make_layout(const ColumnMatrix& matrix, int64_t batch) {
  cublasLtMatrixLayout_t raw = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&raw, type_of(matrix.type), static_cast<uint64_t>(matrix.rows),
                                          static_cast<uint64_t>(matrix.columns), leading_of(matrix)));
  MatrixLayoutHandle layout(raw);
  if (batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    check_cublas(
        cublasLtMatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    check_cublas(cublasLtMatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &matrix.stride, sizeof matrix.stride));
  }
  return layout;
}

cublasLtEpilogue_t epilogue_of(const Product& product) {
  switch (product.epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu:
      return product.bias == nullptr ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_slope:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::column_sums:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// The library demands columns of aux that begin at multiples of 8 elements, and reads vectors in pieces of
/// 16 bytes.
bool fits_epilogue(const Product& product) {
  if (product.epilogue == Epilogue::none) return true;
  constexpr int64_t unit = 8, piece = 16;
  return product.d.rows % unit == 0 && product.d.columns > 0 &&
         (product.bias == nullptr || alignment_of(product.bias) >= piece) &&
         (product.aux == nullptr || alignment_of(product.aux) >= piece) && alignment_of(product.d) >= piece;
}

/// Which of the product's addresses change from call to call.
void set_pointers(const MatmulHandle& handle, const Product& product) {
  if (product.bias != nullptr) set(handle, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  if (product.aux != nullptr) set(handle, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.aux);
}

}  // namespace

MatrixProducts::MatrixProducts(bool tf32) : tf32_(tf32) {
  cublasLtHandle_t library = nullptr;
  check_cublas(cublasLtCreate(&library));
  library_.reset(library);
}

MatrixProducts::Key MatrixProducts::key_of(const Product& product) {
  Key key{};
  size_t at = 0;
  for (const ColumnMatrix* matrix : {&product.a, &product.b, &product.d})
    for (int64_t fact : {static_cast<int64_t>(matrix->type), matrix->rows, matrix->columns,
                         leading_of(*matrix), matrix->stride, alignment_of(*matrix)})
      key[at++] = fact;
  for (int64_t fact :
       {int64_t{product.transpose_a}, int64_t{product.transpose_b}, product.batch,
        int64_t{product.accumulate}, static_cast<int64_t>(product.epilogue), int64_t{product.bias != nullptr},
        int64_t{product.aux != nullptr}, alignment_of(product.bias), alignment_of(product.aux)})
    key[at++] = fact;
  ensures(at == key.size());
  return key;
}

MatrixProducts::Plan MatrixProducts::make_plan(const Product& product) const {
  Plan plan;
  if (!fits_epilogue(product)) return plan;
  const bool cuts = tf32_ && product.a.type == DType::f32;
  cublasLtMatmulDesc_t raw = nullptr;
  check_cublas(
      cublasLtMatmulDescCreate(&raw, cuts ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  plan.product.reset(raw);
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  set_pointers(plan.product, product);
  if (product.aux != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.d.rows);
  plan.a = make_layout(product.a, product.batch);
  plan.b = make_layout(product.b, product.batch);
  plan.d = make_layout(product.d, product.batch);

  cublasLtMatmulPreference_t raw_preference = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&raw_preference));
  const MatmulPreferenceHandle preference(raw_preference);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(cublas_workspace_bytes));
  // Parts of a sum are added in fp32, never in the type of the result.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const auto d_alignment = static_cast<uint32_t>(alignment_of(product.d));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(alignment_of(product.a)));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(alignment_of(product.b)));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d_alignment);

  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_.get(), plan.product.get(), plan.a.get(), plan.b.get(),
                                     plan.d.get(), plan.d.get(), preference.get(), 1, &result, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_cublas(status);
  plan.possible = status == CUBLAS_STATUS_SUCCESS && found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
  plan.algorithm = result.algo;
  return plan;
}

bool MatrixProducts::try_multiply(const Product& product, CudaQueue& queue) {
  const Key key = key_of(product);
  auto known = plans_.find(key);
  if (known == plans_.end()) known = plans_.emplace(key, make_plan(product)).first;
  const Plan& plan = known->second;
  if (!plan.possible) return false;
  set_pointers(plan.product, product);
  const float alpha = 1.0F, beta = product.accumulate ? 1.0F : 0.0F;
  check_cublas(cublasLtMatmul(library_.get(), plan.product.get(), &alpha, product.a.data, plan.a.get(),
                              product.b.data, plan.b.get(), &beta, product.d.data, plan.d.get(),
                              product.d.data, plan.d.get(), &plan.algorithm, queue.workspace(),
                              static_cast<size_t>(cublas_workspace_bytes), queue.stream()));
  return true;
}

void MatrixProducts::multiply(const Product& product, CudaQueue& queue) {
  expects(product.epilogue == Epilogue::none);
  validate(try_multiply(product, queue), ExitCode::failed,
           "cuBLASLt has no algorithm for a product of {} by {} by {} in {}: use another --precision, or "
           "another version of CUDA",
           product.d.rows, product.d.columns, product.transpose_a ? product.a.rows : product.a.columns,
           name_of(product.a.type));
}

}  // namespace gpt
