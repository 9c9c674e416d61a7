#include "device/cuda/memory.hpp"

#include "base/error.hpp"
#include "device/cuda/check.hpp"

#include <algorithm>
#include <cuda_runtime.h>
#include <exception>
#include <utility>

namespace gpt {
namespace {

[[noreturn]] void refuse(const char* where, int64_t bytes) {
  cudaGetLastError();  // else the next check of a launch would find this failure
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  throw Error(
      fmt::format("no memory for {:.1f} MiB {} ({:.1f} of its {:.1f} MiB are free): use a smaller "
                  "--micro-batch or model, --recompute, or more ranks with --zero 1",
                  static_cast<double>(bytes) / 0x1p20, where, static_cast<double>(free) / 0x1p20,
                  static_cast<double>(total) / 0x1p20));
}

}  // namespace

void* allocate_on_gpu(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(std::max(bytes, int64_t{1})));
  if (status == cudaErrorMemoryAllocation) refuse("on the GPU", bytes);
  check_cuda(status);
  return data;
}

void release_on_gpu(void* data) {
  if (std::uncaught_exceptions() == 0) cudaFree(data);
}

void* allocate_pinned(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMallocHost(&data, static_cast<size_t>(std::max(bytes, int64_t{1})));
  if (status == cudaErrorMemoryAllocation) refuse("that the GPU copies from (pinned memory)", bytes);
  check_cuda(status);
  return data;
}

void release_pinned(void* data) {
  if (std::uncaught_exceptions() == 0) cudaFreeHost(data);
}

CudaMemory::CudaMemory(Place place, int64_t bytes) : place_(place), bytes_(bytes) {
  data_ = static_cast<std::byte*>(place == Place::device ? allocate_on_gpu(bytes) : allocate_pinned(bytes));
}

CudaMemory::CudaMemory(CudaMemory&& other) noexcept { *this = std::move(other); }

CudaMemory& CudaMemory::operator=(CudaMemory&& other) noexcept {
  std::swap(place_, other.place_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

CudaMemory::~CudaMemory() {
  if (data_ == nullptr) return;
  if (place_ == Place::device)
    release_on_gpu(data_);
  else
    release_pinned(data_);
}

}  // namespace gpt
