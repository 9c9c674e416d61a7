// Memory of devices, and memory of the host that devices can reach.
#include "device.hpp"
#include "failure.hpp"
#include "memory.hpp"
#include "settings.hpp"
#include "stream.hpp"

#include <cuda_runtime.h>

using namespace standin;

namespace {

cudaError_t get(void** memory, size_t size, cudaMemoryType type) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  if (!memory) return note(cudaErrorInvalidValue);
  *memory = nullptr;
  if (size == 0) return cudaSuccess;
  const Call call;
  *memory = allocate(size, type, current_device());
  return *memory ? cudaSuccess : note(cudaErrorMemoryAllocation);
}

/// Freeing waits for the devices, as CUDA does.
cudaError_t give_back(void* memory, cudaMemoryType type) {
  if (!memory) return cudaSuccess;
  Call call;
  for (int device = 0; device < device_count(); ++device) drain_device(device, call);
  return release(memory, type) ? cudaSuccess : note(cudaErrorInvalidValue);
}

}  // namespace

extern "C" {
cudaError_t cudaMalloc(void** devPtr, size_t size) { return get(devPtr, size, cudaMemoryTypeDevice); }
cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t) {
  return get(devPtr, size, cudaMemoryTypeDevice);
}
cudaError_t cudaMallocHost(void** ptr, size_t size) { return get(ptr, size, cudaMemoryTypeHost); }
cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int) {
  return get(pHost, size, cudaMemoryTypeHost);
}

cudaError_t cudaFree(void* devPtr) { return give_back(devPtr, cudaMemoryTypeDevice); }
cudaError_t cudaFreeHost(void* ptr) { return give_back(ptr, cudaMemoryTypeHost); }
cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t stream) {
  if (!devPtr) return cudaSuccess;
  Call call;
  enqueue(stream_of(stream), Task{[devPtr] {
            if (!release(devPtr, cudaMemoryTypeDevice))
              fail("cudaFreeAsync: no allocation of a device begins at {}", fmt::ptr(devPtr));
          }},
          call);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int) {
  if (!ptr || size == 0) return note(cudaErrorInvalidValue);
  const Call call;
  return register_host_memory(ptr, size) ? cudaSuccess : note(cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* ptr) {
  const Call call;
  return unregister_host_memory(ptr) ? cudaSuccess : note(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  const Call call;
  const Allocation* allocation = find_allocation(ptr);
  auto* address = const_cast<void*>(ptr);
  if (!allocation) {
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, address};
  } else {
    const bool host = allocation->type == cudaMemoryTypeHost;
    *attributes = {allocation->type, allocation->device, address, host ? address : nullptr};
  }
  return cudaSuccess;
}
}
