#include "device/cuda/check.hpp"

#include "base/error.hpp"

#include <string_view>

namespace gpt {
namespace {

const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "the GPU's memory is full: lower --micro-batch, or use --recompute or --zero 1";
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu";
    default:
      return "the GPU cannot be used by this process any more: look at nvidia-smi and the system's log, and "
             "start again";
  }
}

std::string_view file_name(const std::source_location& where) {
  const std::string_view path = where.file_name();
  return path.substr(path.rfind('/') + 1);
}

const char* name_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "cuBLASLt status";
  }
}

}  // namespace

void check_cuda(cudaError_t status, const std::source_location& where) {
  validate(status == cudaSuccess, ExitCode::failed, "CUDA: {} ({}) at {}:{}; {}", cudaGetErrorString(status),
           cudaGetErrorName(status), file_name(where), where.line(), advice(status));
}

void check_cublas(cublasStatus_t status, const std::source_location& where) {
  validate(
      status == CUBLAS_STATUS_SUCCESS, ExitCode::failed,
      "cuBLASLt: {} ({}) at {}:{}; look at nvidia-smi, and compare the versions that the announcement of "
      "the device names with those of the build",
      name_of(status), static_cast<int>(status), file_name(where), where.line());
}

}  // namespace gpt
