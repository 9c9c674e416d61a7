#include "background.hpp"
#include "block.hpp"
#include "device.hpp"
#include "memory.hpp"
#include "settings.hpp"
#include "stream.hpp"

#include <algorithm>
#include <cuda_runtime.h>
#include <map>

namespace standin {
namespace {

/// Dynamic shared memory that kernels asked for beyond what all may have.
std::map<const void*, size_t>& opted_in() {
  static std::map<const void*, size_t> bytes;
  return bytes;
}

size_t shared_limit(const void* kernel) {
  const auto found = opted_in().find(kernel);
  return found == opted_in().end() ? kSharedPerBlock : found->second;
}

bool runs_anywhere(dim3 blocks, dim3 threads) {
  const uint64_t count = uint64_t{threads.x} * threads.y * threads.z;
  return count > 0 && count <= kMaxThreads && threads.z <= 64 && blocks.x > 0 && blocks.x <= 0x7fffffff &&
         blocks.y > 0 && blocks.y <= 65535 && blocks.z > 0 && blocks.z <= 65535;
}

}  // namespace

void check_device_pointer(const void* pointer, const char* what) {
  const Call call;
  if (pointer) check_device_range(pointer, 0, current_device(), what);
}

cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config, Body body,
                   std::shared_ptr<void> args) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  if (config.numAttrs > 0) return note(cudaErrorNotSupported);
  const dim3 blocks = config.gridDim, threads = config.blockDim;
  if (!runs_anywhere(blocks, threads)) return note(cudaErrorInvalidConfiguration);
  Call call;
  if (config.dynamicSmemBytes > shared_limit(kernel)) return note(cudaErrorInvalidValue);
  CUstream_st& stream = stream_of(config.stream);
  if (stream.device != current_device()) return note(cudaErrorInvalidResourceHandle);
  enqueue(stream, Task{[=, shared = config.dynamicSmemBytes, args = std::move(args)] {
            const KernelTime time;
            run_grid(blocks, threads, shared, body, args.get());
          }},
          call);
  return cudaSuccess;
}

}  // namespace standin

using namespace standin;

extern "C" {
cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  if (attr == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      size_t(value) > kSharedPerBlockOptIn)
    return note(cudaErrorInvalidValue);
  const Call call;
  opted_in()[func] = size_t(value);
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  const Call call;
  *attr = {};
  attr->maxThreadsPerBlock = kMaxThreads;
  attr->numRegs = 32;
  attr->ptxVersion = attr->binaryVersion = 90;
  attr->maxDynamicSharedSizeBytes = int(shared_limit(func));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func, int blockSize,
                                                          size_t dynamicSMemSize) {
  if (blockSize <= 0) return note(cudaErrorInvalidValue);
  const Call call;
  constexpr size_t kReserved = 1024;  // shared memory that the system takes for each block
  const int warps = (blockSize + 31) / 32;
  const int by_threads = kThreadsPerMultiprocessor / (32 * warps);
  const int by_shared = int(kSharedPerMultiprocessor / (dynamicSMemSize + kReserved));
  const bool runs = blockSize <= kMaxThreads && dynamicSMemSize <= shared_limit(func);
  *numBlocks = runs ? std::min({by_threads, by_shared, kBlocksPerMultiprocessor}) : 0;
  return cudaSuccess;
}
}
