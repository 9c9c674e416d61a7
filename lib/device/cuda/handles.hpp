#pragma once

#include "base/handle.hpp"

#include <cublasLt.h>
#include <cuda_runtime.h>

namespace gpt {

struct StreamTraits {
  using type = cudaStream_t;
  static type null() { return nullptr; }
  static void release(type stream) { cudaStreamDestroy(stream); }
};
using StreamHandle = Handle<StreamTraits>;

struct CudaEventTraits {
  using type = cudaEvent_t;
  static type null() { return nullptr; }
  static void release(type event) { cudaEventDestroy(event); }
};
using CudaEventHandle = Handle<CudaEventTraits>;

struct CublasTraits {
  using type = cublasLtHandle_t;
  static type null() { return nullptr; }
  static void release(type library) { cublasLtDestroy(library); }
};
using CublasHandle = Handle<CublasTraits>;

struct MatmulTraits {
  using type = cublasLtMatmulDesc_t;
  static type null() { return nullptr; }
  static void release(type product) { cublasLtMatmulDescDestroy(product); }
};
using MatmulHandle = Handle<MatmulTraits>;

struct MatrixLayoutTraits {
  using type = cublasLtMatrixLayout_t;
  static type null() { return nullptr; }
  static void release(type layout) { cublasLtMatrixLayoutDestroy(layout); }
};
using MatrixLayoutHandle = Handle<MatrixLayoutTraits>;

struct MatmulPreferenceTraits {
  using type = cublasLtMatmulPreference_t;
  static type null() { return nullptr; }
  static void release(type preference) { cublasLtMatmulPreferenceDestroy(preference); }
};
using MatmulPreferenceHandle = Handle<MatmulPreferenceTraits>;

}  // namespace gpt
