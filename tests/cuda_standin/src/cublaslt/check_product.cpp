#include "product.hpp"

#include <initializer_list>

namespace standin {
namespace {

bool is_known_epilogue(uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
    default:
      return false;
  }
}

bool is_valid(const Layout& layout) {
  const uint64_t least = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.cols;
  return layout.rows > 0 && layout.cols > 0 && layout.ld >= int64_t(least) && layout.batch_count > 0;
}

bool shapes_fit(const Product& p) {
  const bool plain_a = p.desc.trans_a == CUBLAS_OP_N, plain_b = p.desc.trans_b == CUBLAS_OP_N;
  const uint64_t m = plain_a ? p.a.rows : p.a.cols, k = plain_a ? p.a.cols : p.a.rows;
  const uint64_t k_of_b = plain_b ? p.b.rows : p.b.cols, n = plain_b ? p.b.cols : p.b.rows;
  const int32_t batch = p.d.batch_count;
  return k == k_of_b && p.d.rows == m && p.d.cols == n && p.c.rows == m && p.c.cols == n &&
         p.a.batch_count == batch && p.b.batch_count == batch && p.c.batch_count == batch;
}

bool types_supported(const Product& p) {
  if (p.a.type != p.b.type || p.c.type != p.d.type) return false;
  if (p.a.type == CUDA_R_32F) return p.d.type == CUDA_R_32F;
  const bool full = p.desc.compute == CUBLAS_COMPUTE_32F || p.desc.compute == CUBLAS_COMPUTE_32F_PEDANTIC;
  return p.a.type == CUDA_R_16BF && full && (p.d.type == CUDA_R_16BF || p.d.type == CUDA_R_32F);
}

bool aligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

bool epilogue_supported(const Product& p) {
  if (!is_known_epilogue(p.desc.epilogue)) return false;
  if (p.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  // Documented: no epilogue for a D in row order.
  if (p.d.order != CUBLASLT_ORDER_COL) return false;
  constexpr uintptr_t kVector = 16;
  if (p.uses_bias() && (p.bias_type() != cudaDataType_t(p.d.type) || !aligned(p.desc.bias, kVector)))
    return false;
  if (p.has_bias_gradient() && p.d.batch_count > 1) return false;
  if (p.uses_aux())
    return p.aux_type() == cudaDataType_t(p.d.type) && p.desc.aux_ld % 8 == 0 && p.desc.aux_ld >= p.rows() &&
           aligned(p.desc.aux, kVector);
  return true;
}

}  // namespace

cublasStatus_t check_product(const Product& p) {
  for (const Layout* layout : {&p.a, &p.b, &p.c, &p.d})
    if (!is_valid(*layout)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!shapes_fit(p)) return CUBLAS_STATUS_INVALID_VALUE;
  return types_supported(p) && epilogue_supported(p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace standin
