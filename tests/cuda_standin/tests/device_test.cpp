#include "cuda_test.hpp"

#include <cmath>
#include <cstring>
#include <string>

namespace gpt {

using standin::visible_devices;
using test::cuda;
using Numbers = std::vector<uint32_t>;

TEST_CASE("CUDA_VISIBLE_DEVICES chooses devices by index or UUID, up to the first that is none") {
  CHECK(visible_devices(3, {}, nullptr) == Numbers{0, 1, 2});
  CHECK(visible_devices(3, {}, "") == Numbers{});
  CHECK(visible_devices(3, {}, "2,0") == Numbers{2, 0});
  CHECK(visible_devices(3, {}, "1,7,2") == Numbers{1});
  CHECK(visible_devices(3, {}, "-1") == Numbers{});
  CHECK(visible_devices(3, {}, "GPU-00000002") == Numbers{2});
  CHECK(visible_devices(2, {10, 11}, nullptr) == Numbers{10, 11});
  CHECK(visible_devices(2, {10, 10}, "1") == Numbers{10});
  CHECK(visible_devices(2, {10, 11}, "GPU-0000000b-5374") == Numbers{11});
}

TEST_CASE("every visible device has its UUID, its memory and its own streams") {
  const test::KeptSettings kept;
  standin::settings().devices = {0x12, 0x34};
  standin::settings().name = "NVIDIA H100 80GB HBM3";
  int count = 0;
  cuda(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  cudaDeviceProp first, second;
  cuda(cudaGetDeviceProperties(&first, 0));
  cuda(cudaGetDeviceProperties(&second, 1));
  CHECK(std::memcmp(&first.uuid, &second.uuid, sizeof first.uuid) != 0);
  CHECK(first.uuid.bytes[3] == 0x12);
  CHECK(std::string(first.name) == "NVIDIA H100 80GB HBM3");
  CHECK(first.major == 9);
  char bus[32];
  cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
  CHECK(std::string(bus) == "0000:34:00.0");
  CHECK(cudaDeviceGetPCIBusId(bus, 4, 1) == cudaErrorInvalidValue);
  int value = 0;
  cuda(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  CHECK(value == 227 * 1024);

  cuda(cudaSetDevice(1));
  int current = -1;
  cuda(cudaGetDevice(&current));
  CHECK(current == 1);
  void* memory = nullptr;
  cuda(cudaMalloc(&memory, 4096));
  size_t free = 0, total = 0;
  cuda(cudaMemGetInfo(&free, &total));
  CHECK(total - free == 4096);
  cuda(cudaSetDevice(0));
  cuda(cudaMemGetInfo(&free, &total));
  CHECK(total == free);
  cuda(cudaFree(memory));
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("without a device every call says so") {
  const test::KeptSettings kept;
  standin::settings().devices = {};
  int count = -1, version = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 16) == cudaErrorNoDevice);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream) == cudaErrorNoDevice);
  CHECK(cudaDeviceSynchronize() == cudaErrorNoDevice);
  CHECK(cudaRuntimeGetVersion(&version) == cudaSuccess);
  CHECK(version >= 12000);
  CHECK(std::string(cudaGetErrorName(cudaErrorNoDevice)) == "cudaErrorNoDevice");
  CHECK(std::string(cudaGetErrorString(cudaErrorNoDevice)) == "no CUDA-capable device is detected");
  cudaGetLastError();
}

TEST_CASE("a device has as much memory as was said, and gives back what is freed") {
  const test::KeptSettings kept;
  standin::settings().memory = 1 << 20;
  void *first = nullptr, *second = nullptr;
  cuda(cudaMalloc(&first, 700 << 10));
  CHECK(cudaMalloc(&second, 700 << 10) == cudaErrorMemoryAllocation);
  CHECK(second == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  cuda(cudaMallocHost(&second, 2 << 20));
  cuda(cudaFreeHost(second));
  cuda(cudaFree(first));
  cuda(cudaMalloc(&second, 700 << 10));
  cuda(cudaFree(second));
  CHECK(cudaFree(&first) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("pointers know where they point") {
  cudaPointerAttributes attributes;
  int local = 0;
  cuda(cudaPointerGetAttributes(&attributes, &local));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  cuda(cudaHostRegister(&local, sizeof local, cudaHostRegisterDefault));
  cuda(cudaPointerGetAttributes(&attributes, &local));
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaHostRegister(&local, sizeof local, cudaHostRegisterDefault) ==
        cudaErrorHostMemoryAlreadyRegistered);
  cuda(cudaHostUnregister(&local));
  CHECK(cudaHostUnregister(&local) == cudaErrorHostMemoryNotRegistered);
  const test::DeviceArray<float> array(4);
  cuda(cudaPointerGetAttributes(&attributes, array.get() + 2));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.hostPointer == nullptr);
  for (const float value : array.host()) CHECK(std::isnan(value));
  cudaGetLastError();
}

}  // namespace gpt
