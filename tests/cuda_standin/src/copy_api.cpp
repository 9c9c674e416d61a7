// Copies and fills.
#include "device.hpp"
#include "failure.hpp"
#include "memory.hpp"
#include "stream.hpp"

#include <cstring>
#include <cuda_runtime.h>

using namespace standin;

namespace {

/// Checks one side of a copy of `bytes`: a range of the device, or of the host.
void check_side(const void* start, size_t bytes, bool on_device, int device) {
  const Allocation* allocation = find_allocation(start);
  const bool is_device = allocation && allocation->type == cudaMemoryTypeDevice &&
                         reinterpret_cast<uintptr_t>(start) < allocation->start + allocation->bytes;
  if (on_device != is_device)
    fail("a copy between host and device: {} is not memory of the {}", fmt::ptr(start),
         on_device ? "device" : "host");
  if (on_device) check_device_range(start, bytes, device, "copied memory");
}

void check_copy(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind, int device) {
  if (kind == cudaMemcpyDefault) return;
  check_side(to, bytes, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice, device);
  check_side(from, bytes, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice, device);
}

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUstream_st& stream, Call& call) {
  if (bytes == 0) return;
  check_copy(to, from, bytes, kind, stream.device);
  enqueue(stream, Task{[=] { std::memcpy(to, from, bytes); }}, call);
}

void fill(void* memory, int value, size_t bytes, CUstream_st& stream, Call& call) {
  if (bytes == 0) return;
  check_device_range(memory, bytes, stream.device, "filled memory");
  enqueue(stream, Task{[=] { std::memset(memory, value, bytes); }}, call);
}

}  // namespace

extern "C" {
cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  Call call;
  CUstream_st& stream = stream_of(nullptr);
  copy(dst, src, count, kind, stream, call);
  // Copies inside a device do not make the host wait.
  if (kind != cudaMemcpyDeviceToDevice) drain(stream, call);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  Call call;
  copy(dst, src, count, kind, stream_of(stream), call);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  if (width > dpitch || width > spitch) return note(cudaErrorInvalidValue);
  Call call;
  CUstream_st& target = stream_of(stream);
  for (size_t row = 0; row < height; ++row)
    copy(static_cast<char*>(dst) + row * dpitch, static_cast<const char*>(src) + row * spitch, width, kind,
         target, call);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  return cudaMemsetAsync(devPtr, value, count, nullptr);
}
cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  Call call;
  fill(devPtr, value, count, stream_of(stream), call);
  return cudaSuccess;
}
}
