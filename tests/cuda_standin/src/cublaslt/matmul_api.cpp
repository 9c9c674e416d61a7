#include "../failure.hpp"
#include "../memory.hpp"
#include "../stream.hpp"
#include "product.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace standin;

namespace {

/// What an algorithm holds: for which product it was chosen, and what that presumed.
struct Choice {
  uint64_t magic;
  uint64_t product;
  uint64_t workspace;
  uint32_t alignment[4];
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));
constexpr uint64_t kMagic = 0x6770745f6d61746d;
constexpr uint64_t kWorkspace = 32 * 1024;

uint64_t mix(uint64_t hash, uint64_t value) { return (std::rotl(hash, 23) ^ value) * 0x9e3779b97f4a7c15u; }

/// Of all that an algorithm may depend on. Addresses are not among it.
uint64_t signature(const Product& p) {
  uint64_t hash = 0;
  for (const uint64_t part : {uint64_t(p.desc.compute), uint64_t(p.desc.trans_a), uint64_t(p.desc.trans_b),
                              uint64_t(p.desc.epilogue), uint64_t(p.bias_type()), uint64_t(p.desc.aux_ld)})
    hash = mix(hash, part);
  for (const Layout* layout : {&p.a, &p.b, &p.c, &p.d})
    for (const uint64_t part :
         {uint64_t(layout->type), layout->rows, layout->cols, uint64_t(layout->ld), uint64_t(layout->order),
          uint64_t(layout->batch_count), uint64_t(layout->batch_stride)})
      hash = mix(hash, part);
  return hash;
}

bool aligned(const void* pointer, uint64_t bytes) {
  return bytes == 0 || reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/// @returns whether the algorithm may run this product on these operands with this workspace
cublasStatus_t check_choice(const Choice& choice, const Product& product, const Operands& operands,
                            size_t workspace_bytes) {
  if (choice.magic != kMagic || choice.product != signature(product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (choice.workspace > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  const void* const pointers[] = {operands.a, operands.b, operands.c, operands.d};
  for (int i = 0; i < 4; ++i)
    if (!aligned(pointers[i], choice.alignment[i])) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

void check_ranges(const Product& p, const Operands& operands, bool reads_c, int device) {
  check_device_range(operands.a, p.a.extent(), device, "matrix A");
  check_device_range(operands.b, p.b.extent(), device, "matrix B");
  if (reads_c) check_device_range(operands.c, p.c.extent(), device, "matrix C");
  check_device_range(operands.d, p.d.extent(), device, "matrix D");
  const size_t element = p.d.element_bytes();
  if (p.uses_bias()) {
    const int64_t stride = (p.d.batch_count - 1) * p.desc.bias_batch_stride;
    check_device_range(p.desc.bias, size_t(stride + p.bias_length()) * element, device, "bias");
  }
  if (p.uses_aux()) {
    const int64_t stride = (p.d.batch_count - 1) * p.desc.aux_batch_stride;
    const int64_t last = stride + (p.cols() - 1) * p.desc.aux_ld + p.rows();
    check_device_range(p.desc.aux, size_t(last) * element, device, "auxiliary matrix");
  }
}

}  // namespace

extern "C" {
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle,
                                              cublasLtMatmulDesc_t operationDesc,
                                              cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                              cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t preference, int requestedAlgoCount,
                                              cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
                                              int* returnAlgoCount) {
  if (!lightHandle || !preference || requestedAlgoCount < 1) return CUBLAS_STATUS_INVALID_VALUE;
  *returnAlgoCount = 0;
  const Product product{*operationDesc, *Adesc, *Bdesc, *Cdesc, *Ddesc};
  if (const cublasStatus_t status = check_product(product)) return status;
  Choice choice{kMagic, signature(product), std::min(preference->workspace, kWorkspace), {}};
  std::copy_n(preference->alignment, 4, choice.alignment);
  cublasLtMatmulHeuristicResult_t& result = heuristicResultsArray[0];
  result = {};
  std::memcpy(&result.algo, &choice, sizeof choice);
  result.workspaceSize = choice.workspace;
  result.wavesCount = 1;
  *returnAlgoCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t Adesc, const void* B,
                              cublasLtMatrixLayout_t Bdesc, const void* beta, const void* C,
                              cublasLtMatrixLayout_t Cdesc, void* D, cublasLtMatrixLayout_t Ddesc,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, size_t workspaceSizeInBytes,
                              cudaStream_t stream) {
  if (!lightHandle || !alpha || !beta || !A || !B || !D) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{*computeDesc, *Adesc, *Bdesc, *Cdesc, *Ddesc};
  const Operands operands{A, B, C, D};
  if (const cublasStatus_t status = check_product(product)) return status;
  if ((product.uses_bias() && !product.desc.bias) || (product.uses_aux() && !product.desc.aux))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!aligned(workspace, 16)) return CUBLAS_STATUS_INVALID_VALUE;
  Choice choice{};
  if (algo) {
    std::memcpy(&choice, algo, sizeof choice);
    if (const cublasStatus_t status = check_choice(choice, product, operands, workspaceSizeInBytes))
      return status;
  }
  const bool on_host = product.desc.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  const auto* scales = static_cast<const float*>(alpha);
  const auto* keeps = static_cast<const float*>(beta);
  Call call;
  CUstream_st& target = stream_of(stream);
  if (target.device != lightHandle->device)
    fail("cublasLtMatmul: the handle is of device {}, the stream of device {}", lightHandle->device,
         target.device);
  check_ranges(product, operands, !on_host || *keeps != 0, target.device);
  if (choice.workspace > 0) check_device_range(workspace, choice.workspace, target.device, "workspace");
  if (!on_host) {
    check_device_range(scales, sizeof(float), target.device, "alpha");
    check_device_range(keeps, sizeof(float), target.device, "beta");
  }
  enqueue(target, Task{[=, by_value = std::pair(on_host ? *scales : 0.0f, on_host ? *keeps : 0.0f)] {
            // An algorithm may use all of its workspace: nothing else may be there.
            if (choice.workspace > 0) std::memset(workspace, 0xff, choice.workspace);
            run_product(product, on_host ? by_value.first : *scales, on_host ? by_value.second : *keeps,
                        operands);
          }},
          call);
  return CUBLAS_STATUS_SUCCESS;
}
}
