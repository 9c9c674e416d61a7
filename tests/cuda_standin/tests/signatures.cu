// Uses every function, type and constant that the stand-in declares, as the real headers declare them:
// compiled, and never run, once against the stand-in and once against CUDA and NCCL, where those are
// installed.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <type_traits>

namespace {

/// One value for each name: those of the stand-in must be the real ones, which the same file proves for both.
static_assert(cudaSuccess == 0 && cudaErrorInvalidValue == 1 && cudaErrorMemoryAllocation == 2);
static_assert(cudaErrorInitializationError == 3 && cudaErrorInvalidConfiguration == 9);
static_assert(cudaErrorInvalidDevicePointer == 17 && cudaErrorInvalidMemcpyDirection == 21);
static_assert(cudaErrorInsufficientDriver == 35 && cudaErrorNoDevice == 100 && cudaErrorInvalidDevice == 101);
static_assert(cudaErrorInvalidResourceHandle == 400 && cudaErrorNotReady == 600 &&
              cudaErrorIllegalAddress == 700);
static_assert(cudaErrorLaunchOutOfResources == 701 && cudaErrorLaunchTimeout == 702 &&
              cudaErrorLaunchFailure == 719);
static_assert(cudaErrorHostMemoryAlreadyRegistered == 712 && cudaErrorHostMemoryNotRegistered == 713);
static_assert(cudaErrorNotSupported == 801 && cudaErrorUnknown == 999);
static_assert(cudaMemcpyHostToHost == 0 && cudaMemcpyHostToDevice == 1 && cudaMemcpyDeviceToHost == 2);
static_assert(cudaMemcpyDeviceToDevice == 3 && cudaMemcpyDefault == 4);
static_assert(cudaMemoryTypeUnregistered == 0 && cudaMemoryTypeHost == 1 && cudaMemoryTypeDevice == 2);
static_assert(cudaMemoryTypeManaged == 3);
static_assert(cudaDevAttrMaxThreadsPerBlock == 1 && cudaDevAttrMaxSharedMemoryPerBlock == 8);
static_assert(cudaDevAttrWarpSize == 10 && cudaDevAttrMaxRegistersPerBlock == 12 &&
              cudaDevAttrClockRate == 13);
static_assert(cudaDevAttrMultiProcessorCount == 16 && cudaDevAttrPciBusId == 33 &&
              cudaDevAttrPciDeviceId == 34);
static_assert(cudaDevAttrMemoryClockRate == 36 && cudaDevAttrGlobalMemoryBusWidth == 37);
static_assert(cudaDevAttrL2CacheSize == 38 && cudaDevAttrMaxThreadsPerMultiProcessor == 39);
static_assert(cudaDevAttrAsyncEngineCount == 40 && cudaDevAttrPciDomainId == 50);
static_assert(cudaDevAttrComputeCapabilityMajor == 75 && cudaDevAttrComputeCapabilityMinor == 76);
static_assert(cudaDevAttrMaxSharedMemoryPerMultiprocessor == 81 &&
              cudaDevAttrMaxSharedMemoryPerBlockOptin == 97);
static_assert(cudaDevAttrMemoryPoolsSupported == 115);
static_assert(cudaFuncAttributeMaxDynamicSharedMemorySize == 8 &&
              cudaFuncAttributePreferredSharedMemoryCarveout == 9);
static_assert(cudaStreamDefault == 0 && cudaStreamNonBlocking == 1 && cudaEventDefault == 0);
static_assert(cudaEventBlockingSync == 1 && cudaEventDisableTiming == 2 && cudaEventWaitDefault == 0);
static_assert(cudaHostAllocDefault == 0 && cudaHostAllocPortable == 1 && cudaHostRegisterDefault == 0);
static_assert(CUDA_R_32F == 0 && CUDA_R_64F == 1 && CUDA_R_16F == 2 && CUDA_R_16BF == 14);
static_assert(CUDART_VERSION >= 12000);

static_assert(CUBLAS_STATUS_SUCCESS == 0 && CUBLAS_STATUS_NOT_INITIALIZED == 1 &&
              CUBLAS_STATUS_ALLOC_FAILED == 3);
static_assert(CUBLAS_STATUS_INVALID_VALUE == 7 && CUBLAS_STATUS_ARCH_MISMATCH == 8);
static_assert(CUBLAS_STATUS_MAPPING_ERROR == 11 && CUBLAS_STATUS_EXECUTION_FAILED == 13);
static_assert(CUBLAS_STATUS_INTERNAL_ERROR == 14 && CUBLAS_STATUS_NOT_SUPPORTED == 15);
static_assert(CUBLAS_STATUS_LICENSE_ERROR == 16 && CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1);
static_assert(CUBLAS_COMPUTE_32F == 68 && CUBLAS_COMPUTE_32F_PEDANTIC == 69 &&
              CUBLAS_COMPUTE_32F_FAST_16BF == 75);
static_assert(CUBLAS_COMPUTE_32F_FAST_TF32 == 77);
static_assert(CUBLASLT_POINTER_MODE_HOST == 0 && CUBLASLT_POINTER_MODE_DEVICE == 1);
static_assert(CUBLASLT_ORDER_COL == 0 && CUBLASLT_ORDER_ROW == 1);
static_assert(CUBLASLT_EPILOGUE_DEFAULT == 1 && CUBLASLT_EPILOGUE_BIAS == 4 && CUBLASLT_EPILOGUE_GELU == 32);
static_assert(CUBLASLT_EPILOGUE_GELU_BIAS == 36 && CUBLASLT_EPILOGUE_GELU_AUX == 160);
static_assert(CUBLASLT_EPILOGUE_GELU_AUX_BIAS == 164 && CUBLASLT_EPILOGUE_DGELU == 192);
static_assert(CUBLASLT_EPILOGUE_DGELU_BGRAD == 208 && CUBLASLT_EPILOGUE_BGRADA == 256);
static_assert(CUBLASLT_EPILOGUE_BGRADB == 512);
static_assert(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE == 0 && CUBLASLT_MATMUL_DESC_SCALE_TYPE == 1);
static_assert(CUBLASLT_MATMUL_DESC_POINTER_MODE == 2 && CUBLASLT_MATMUL_DESC_TRANSA == 3);
static_assert(CUBLASLT_MATMUL_DESC_TRANSB == 4 && CUBLASLT_MATMUL_DESC_EPILOGUE == 7);
static_assert(CUBLASLT_MATMUL_DESC_BIAS_POINTER == 8 && CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE == 10);
static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER == 11 && CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD == 12);
static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE == 13);
static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE == 22 && CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE == 26);
static_assert(CUBLASLT_MATRIX_LAYOUT_TYPE == 0 && CUBLASLT_MATRIX_LAYOUT_ORDER == 1);
static_assert(CUBLASLT_MATRIX_LAYOUT_ROWS == 2 && CUBLASLT_MATRIX_LAYOUT_COLS == 3 &&
              CUBLASLT_MATRIX_LAYOUT_LD == 4);
static_assert(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT == 5 && CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET == 6);
static_assert(CUBLASLT_REDUCTION_SCHEME_NONE == 0 && CUBLASLT_REDUCTION_SCHEME_INPLACE == 1);
static_assert(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE == 2 && CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE == 4);
static_assert(CUBLASLT_REDUCTION_SCHEME_MASK == 7);
static_assert(CUBLASLT_MATMUL_PREF_SEARCH_MODE == 0 && CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == 1);
static_assert(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK == 3 &&
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES == 5);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES == 6 &&
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES == 7);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == 8);

static_assert(ncclSuccess == 0 && ncclUnhandledCudaError == 1 && ncclSystemError == 2 &&
              ncclInternalError == 3);
static_assert(ncclInvalidArgument == 4 && ncclInvalidUsage == 5 && ncclRemoteError == 6 &&
              ncclInProgress == 7);
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(ncclInt8 == 0 && ncclChar == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclInt == 2 &&
              ncclUint32 == 3);
static_assert(ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclHalf == 6 && ncclFloat32 == 7);
static_assert(ncclFloat == 7 && ncclFloat64 == 8 && ncclDouble == 8 && ncclBfloat16 == 9);
static_assert(NCCL_UNIQUE_ID_BYTES == 128 && NCCL_SPLIT_NOCOLOR == -1);

static_assert(std::is_same_v<cudaDataType, cudaDataType_t>);
static_assert(sizeof(float4) == 16 && alignof(float4) == 16 && alignof(int4) == 16 && alignof(uint4) == 16);
static_assert(alignof(float2) == 8 && alignof(int2) == 8 && alignof(uint2) == 8 && alignof(double2) == 16);
static_assert(sizeof(__nv_bfloat16) == 2 && alignof(__nv_bfloat16) == 2 && alignof(__nv_bfloat162) == 4);
static_assert(sizeof(cudaUUID_t) == 16 && sizeof(cublasLtMatmulAlgo_t) == 64);

__global__ void __launch_bounds__(128)
    kernel(float* out, int* number, unsigned* natural, unsigned long long* wide, double* real) {
  __shared__ float shared[128];
  const unsigned thread = threadIdx.x + blockDim.x * blockIdx.x + gridDim.x * 0;
  shared[threadIdx.x] = float(thread);
  __syncthreads();
  __syncwarp();
  __threadfence();
  __threadfence_block();
  const unsigned full = 0xffffffffu;
  float sum =
      __shfl_sync(full, shared[0], 0) + __shfl_xor_sync(full, shared[1], 1) + __shfl_up_sync(full, 1.0f, 1u);
  sum += __shfl_down_sync(full, 1.0f, 1u, warpSize);
  sum += float(__ballot_sync(full, 1)) + float(__any_sync(full, 1)) + float(__all_sync(full, 1));
  sum += float(__syncthreads_count(1) + __syncthreads_or(1) + __syncthreads_and(1));
  atomicAdd(out, 1.0f);
  atomicAdd(number, 1);
  atomicAdd(natural, 1u);
  atomicAdd(wide, 1ull);
  atomicAdd(real, 1.0);
  atomicMax(number, 1);
  atomicMin(natural, 1u);
  atomicOr(natural, 1u);
  atomicAnd(natural, 1u);
  atomicExch(number, 1);
  atomicExch(out, 1.0f);
  atomicCAS(natural, 1u, 2u);
  __stcs(out, __ldcs(out) + __ldg(out) + __ldcg(out) + __ldca(out));
  __stcg(out, 1.0f);
  __stwt(out, 1.0f);
  sum += rsqrtf(2.0f) + float(rsqrt(2.0)) + __expf(1.0f) + __logf(1.0f) + __powf(2.0f, 2.0f) + __sinf(1.0f) +
         __cosf(1.0f);
  sum += __fdividef(1.0f, 2.0f) + __frcp_rn(2.0f) + __fsqrt_rn(2.0f) + __fadd_rn(1.0f, 2.0f) +
         __fmul_rn(1.0f, 2.0f);
  sum +=
      __fmaf_rn(1.0f, 2.0f, 3.0f) + __saturatef(2.0f) + max(1.0f, 2.0f) + min(1.0f, 2.0f) + float(max(1, 2));
  sum += __uint_as_float(__float_as_uint(sum)) + __int_as_float(__float_as_int(sum)) + __uint2float_rn(3u);
  sum += float(__longlong_as_double(__double_as_longlong(1.0))) + float(__float2int_rn(sum));
  *natural +=
      __umulhi(*natural, 3u) + unsigned(__umul64hi(*wide, 3ull)) + unsigned(__popc(3u) + __clz(3) + __ffs(3));
  *out = sum;
}

void errors_and_devices() {
  int number = 0;
  size_t size = 0;
  char text[32];
  cudaDeviceProp prop{};
  (void)cudaGetErrorName(cudaSuccess);
  (void)cudaGetErrorString(cudaSuccess);
  (void)cudaGetLastError();
  (void)cudaPeekAtLastError();
  (void)cudaRuntimeGetVersion(&number);
  (void)cudaDriverGetVersion(&number);
  (void)cudaGetDeviceCount(&number);
  (void)cudaSetDevice(0);
  (void)cudaGetDevice(&number);
  (void)cudaGetDeviceProperties(&prop, 0);
  (void)cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 0);
  (void)cudaDeviceGetPCIBusId(text, 32, 0);
  (void)cudaDeviceGetStreamPriorityRange(&number, &number);
  (void)cudaDeviceSynchronize();
  (void)cudaMemGetInfo(&size, &size);
  (void)(prop.name[0] + prop.uuid.bytes[0] + prop.totalGlobalMem + prop.sharedMemPerBlock +
         prop.totalConstMem + prop.sharedMemPerMultiprocessor + prop.sharedMemPerBlockOptin);
  for (const int value : {prop.regsPerBlock,
                          prop.warpSize,
                          prop.maxThreadsPerBlock,
                          prop.maxThreadsDim[2],
                          prop.maxGridSize[2],
                          prop.major,
                          prop.minor,
                          prop.multiProcessorCount,
                          prop.integrated,
                          prop.canMapHostMemory,
                          prop.concurrentKernels,
                          prop.ECCEnabled,
                          prop.pciBusID,
                          prop.pciDeviceID,
                          prop.pciDomainID,
                          prop.asyncEngineCount,
                          prop.unifiedAddressing,
                          prop.memoryBusWidth,
                          prop.l2CacheSize,
                          prop.maxThreadsPerMultiProcessor,
                          prop.streamPrioritiesSupported,
                          prop.regsPerMultiprocessor,
                          prop.maxBlocksPerMultiProcessor,
                          prop.memoryPoolsSupported})
    number += value;
}

void memory(cudaStream_t stream) {
  void* raw = nullptr;
  float* typed = nullptr;
  cudaPointerAttributes attributes{};
  (void)cudaMalloc(&raw, 1);
  (void)cudaMalloc(&typed, 1);
  (void)cudaMallocAsync(&raw, 1, stream);
  (void)cudaMallocAsync(&typed, 1, stream);
  (void)cudaMallocHost(&raw, 1);
  (void)cudaMallocHost(&typed, 1);
  (void)cudaHostAlloc(&raw, 1, cudaHostAllocPortable);
  (void)cudaHostAlloc(&typed, 1, cudaHostAllocDefault);
  (void)cudaFree(raw);
  (void)cudaFreeAsync(raw, stream);
  (void)cudaFreeHost(raw);
  (void)cudaHostRegister(raw, 1, cudaHostRegisterDefault);
  (void)cudaHostUnregister(raw);
  (void)cudaPointerGetAttributes(&attributes, raw);
  (void)(attributes.type == cudaMemoryTypeHost && attributes.device == 0 && attributes.devicePointer == raw &&
         attributes.hostPointer == raw);
  (void)cudaMemcpy(raw, typed, 1, cudaMemcpyDefault);
  (void)cudaMemcpyAsync(raw, typed, 1, cudaMemcpyHostToHost, stream);
  (void)cudaMemcpyAsync(raw, typed, 1, cudaMemcpyHostToHost);
  (void)cudaMemcpy2DAsync(raw, 1, typed, 1, 1, 1, cudaMemcpyDeviceToDevice, stream);
  (void)cudaMemset(raw, 0, 1);
  (void)cudaMemsetAsync(raw, 0, 1, stream);
  (void)cudaMemsetAsync(raw, 0, 1);
}

void streams_and_events() {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  unsigned flags = 0;
  int priority = 0;
  float milliseconds = 0;
  (void)cudaStreamCreate(&stream);
  (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  (void)cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  (void)cudaStreamDestroy(stream);
  (void)cudaStreamGetFlags(stream, &flags);
  (void)cudaStreamGetPriority(stream, &priority);
  (void)cudaStreamSynchronize(stream);
  (void)cudaStreamQuery(stream);
  (void)cudaStreamWaitEvent(stream, event);
  (void)cudaStreamWaitEvent(stream, event, cudaEventWaitDefault);
  (void)cudaLaunchHostFunc(
      stream, [](void*) {}, nullptr);
  const cudaHostFn_t function = [](void*) {};
  (void)function;
  (void)cudaEventCreate(&event);
  (void)cudaEventCreate(&event, cudaEventBlockingSync);
  (void)cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  (void)cudaEventDestroy(event);
  (void)cudaEventRecord(event, stream);
  (void)cudaEventRecord(event);
  (void)cudaEventQuery(event);
  (void)cudaEventSynchronize(event);
  (void)cudaEventElapsedTime(&milliseconds, event, event);
}

void launches(cudaStream_t stream) {
  cudaFuncAttributes attributes{};
  int blocks = 0;
  float* out = nullptr;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1, 2, 3);
  config.blockDim = 128;
  config.dynamicSmemBytes = 0;
  config.stream = stream;
  config.attrs = static_cast<cudaLaunchAttribute*>(nullptr);
  config.numAttrs = 0;
  (void)cudaLaunchKernelEx(&config, kernel, out, nullptr, nullptr, nullptr, nullptr);
  (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1);
  (void)cudaFuncGetAttributes(&attributes, kernel);
  (void)(attributes.sharedSizeBytes + attributes.constSizeBytes + attributes.localSizeBytes);
  for (const int value :
       {attributes.maxThreadsPerBlock, attributes.numRegs, attributes.ptxVersion, attributes.binaryVersion,
        attributes.cacheModeCA, attributes.maxDynamicSharedSizeBytes, attributes.preferredShmemCarveout})
    blocks += value;
  (void)cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 128, 0);
}

void bf16() {
  const __nv_bfloat16 a = __float2bfloat16(1.0f), b = __float2bfloat16_rn(1.0f),
                      c = __float2bfloat16_rz(1.0f);
  const nv_bfloat162 pair = __floats2bfloat162_rn(__bfloat162float(a), __bfloat162float(c));
  const float2 both = __bfloat1622float2(__float22bfloat162_rn(make_float2(1, 2)));
  const __nv_bfloat162 halves = __halves2bfloat162(a, b);
  const nv_bfloat16 same = __ushort_as_bfloat16(__bfloat16_as_ushort(a));
  const __nv_bfloat16_raw raw = same;
  (void)__nv_bfloat16(raw);
  (void)(__low2float(pair) + __high2float(halves) + both.x + float(raw.x));
  (void)(make_int2(1, 2).x + make_int4(1, 2, 3, 4).w + int(make_uint2(1, 2).y) +
         int(make_uint4(1, 2, 3, 4).z));
  (void)make_float4(1, 2, 3, 4).x;
}

void products(cudaStream_t stream) {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const float one = 1;
  const cublasLtPointerMode_t mode = CUBLASLT_POINTER_MODE_HOST;
  const cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  (void)cublasLtCreate(&handle);
  (void)cublasLtGetStatusName(CUBLAS_STATUS_SUCCESS);
  (void)cublasLtGetStatusString(CUBLAS_STATUS_SUCCESS);
  (void)cublasLtGetVersion();
  (void)cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  (void)cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode);
  (void)cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 1, 1, 1);
  (void)cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
  (void)cublasLtMatmulPreferenceCreate(&preference);
  (void)cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &one,
                                             sizeof one);
  (void)cublasLtMatmulAlgoGetHeuristic(handle, desc, layout, layout, layout, layout, preference, 1, &result,
                                       &found);
  (void)(result.algo.data[0] + result.workspaceSize + uint64_t(result.state) + uint64_t(result.wavesCount));
  (void)cublasLtMatmul(handle, desc, &one, &one, layout, &one, layout, &one, &one, layout, nullptr, layout,
                       &result.algo, nullptr, 0, stream);
  (void)cublasLtMatmulPreferenceDestroy(preference);
  (void)cublasLtMatrixLayoutDestroy(layout);
  (void)cublasLtMatmulDescDestroy(desc);
  (void)cublasLtDestroy(handle);
}

void collectives(cudaStream_t stream) {
  ncclComm_t comm = nullptr;
  ncclUniqueId id{};
  ncclResult_t state = ncclSuccess;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = "name";
  config.splitShare = config.minCTAs = config.maxCTAs = config.cgaClusterSize = config.trafficClass = 0;
  config.netName = nullptr;
  int number = NCCL_VERSION_CODE + NCCL_VERSION(2, 28, 9) + NCCL_CONFIG_UNDEF_INT * 0;
  void* data = nullptr;
  (void)ncclGetVersion(&number);
  (void)ncclGetErrorString(state);
  (void)ncclGetLastError(comm);
  (void)ncclGetUniqueId(&id);
  (void)ncclCommInitRank(&comm, 1, id, 0);
  (void)ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  (void)ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &comm, nullptr);
  (void)ncclCommFinalize(comm);
  (void)ncclCommDestroy(comm);
  (void)ncclCommAbort(comm);
  (void)ncclCommGetAsyncError(comm, &state);
  (void)ncclCommCount(comm, &number);
  (void)ncclCommCuDevice(comm, &number);
  (void)ncclCommUserRank(comm, &number);
  (void)ncclMemAlloc(&data, 1);
  (void)ncclMemFree(data);
  (void)ncclReduce(data, data, 1, ncclFloat, ncclSum, 0, comm, stream);
  (void)ncclBroadcast(data, data, 1, ncclFloat, 0, comm, stream);
  (void)ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, stream);
  (void)ncclReduceScatter(data, data, 1, ncclFloat, ncclSum, comm, stream);
  (void)ncclAllGather(data, data, 1, ncclFloat, comm, stream);
  (void)ncclSend(data, 1, ncclFloat, 0, comm, stream);
  (void)ncclRecv(data, 1, ncclFloat, 0, comm, stream);
  (void)ncclGroupStart();
  (void)ncclGroupEnd();
}

}  // namespace

void use_everything(cudaStream_t stream) {
  errors_and_devices();
  memory(stream);
  streams_and_events();
  launches(stream);
  bf16();
  products(stream);
  collectives(stream);
}
