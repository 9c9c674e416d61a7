#include "device.hpp"

#include "memory.hpp"
#include "settings.hpp"
#include "stream.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace standin {
namespace {

thread_local int selected = 0;
thread_local cudaError_t last_error = cudaSuccess;

bool exists(int device) { return device >= 0 && device < device_count(); }

uint32_t number_of(int device) { return settings().devices[size_t(device)]; }

/// The UUID's bytes are the digits of its text.
cudaUUID_t uuid_of(int device) {
  cudaUUID_t uuid{};
  size_t digit = 0;
  for (const char c : uuid_text(number_of(device)).substr(std::strlen("GPU-"))) {
    if (c == '-') continue;
    const int value = c <= '9' ? c - '0' : c - 'a' + 10;
    uuid.bytes[digit / 2] = char(uuid.bytes[digit / 2] * 16 + value);
    ++digit;
  }
  return uuid;
}

}  // namespace

int device_count() { return int(settings().devices.size()); }
int current_device() { return selected; }
cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace standin

using namespace standin;

extern "C" {
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  *runtimeVersion = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* driverVersion) {
  *driverVersion = device_count() > 0 ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : note(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return note(device_count() > 0 ? cudaErrorInvalidDevice : cudaErrorNoDevice);
  selected = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  *device = selected;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  *prop = {};
  settings().name.copy(prop->name, sizeof prop->name - 1);
  prop->uuid = uuid_of(device);
  prop->totalGlobalMem = settings().memory;
  prop->sharedMemPerBlock = kSharedPerBlock;
  prop->sharedMemPerBlockOptin = kSharedPerBlockOptIn;
  prop->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
  prop->warpSize = 32;
  prop->maxThreadsPerBlock = kMaxThreads;
  prop->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  prop->maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
  const int most_threads[] = {1024, 1024, 64}, most_blocks[] = {0x7fffffff, 65535, 65535};
  std::copy_n(most_threads, 3, prop->maxThreadsDim);
  std::copy_n(most_blocks, 3, prop->maxGridSize);
  prop->totalConstMem = 65536;
  prop->major = 9;
  prop->minor = 0;
  prop->multiProcessorCount = 4;
  prop->canMapHostMemory = prop->concurrentKernels = prop->ECCEnabled = prop->unifiedAddressing = 1;
  prop->pciBusID = int(number_of(device) & 0xff);
  prop->asyncEngineCount = 2;
  prop->memoryBusWidth = 512;
  prop->l2CacheSize = 4 << 20;
  prop->streamPrioritiesSupported = prop->memoryPoolsSupported = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  cudaDeviceProp prop;
  if (const cudaError_t error = cudaGetDeviceProperties(&prop, device)) return error;
  constexpr int kKilohertz = 1000000;
  switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = prop.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = int(prop.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = prop.warpSize;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = prop.regsPerBlock;
      break;
    case cudaDevAttrClockRate:
      *value = kKilohertz;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = prop.multiProcessorCount;
      break;
    case cudaDevAttrPciBusId:
      *value = prop.pciBusID;
      break;
    case cudaDevAttrPciDeviceId:
      *value = prop.pciDeviceID;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = kKilohertz;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = prop.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      *value = prop.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = prop.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = prop.asyncEngineCount;
      break;
    case cudaDevAttrPciDomainId:
      *value = prop.pciDomainID;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = prop.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = prop.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = int(prop.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(prop.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = prop.memoryPoolsSupported;
      break;
    default:
      return note(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  const std::string text = fmt::format("0000:{:02X}:00.0", number_of(device) & 0xff);
  if (len <= int(text.size())) return note(cudaErrorInvalidValue);
  std::strcpy(pciBusId, text.c_str());
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  if (leastPriority) *leastPriority = 0;
  if (greatestPriority) *greatestPriority = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  Call call;
  drain_device(current_device(), call);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  const Call call;
  *total = settings().memory;
  *free = *total - used_memory(current_device());
  return cudaSuccess;
}
}
