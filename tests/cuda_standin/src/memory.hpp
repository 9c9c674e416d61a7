#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <string>

namespace standin {

/// A range that the code under test got from the runtime, or registered there.
struct Allocation {
  uintptr_t start;
  size_t bytes;
  cudaMemoryType type;
  int device;
  bool registered;  ///< host memory of the caller
};

// All of these want the lock of `call.hpp` to be held.

/// New memory full of NaN, as fp32 and as bf16. Null when the device has not that much left.
void* allocate(size_t bytes, cudaMemoryType type, int device);
/// @returns false if no allocation begins there
bool release(void* start, cudaMemoryType type);

bool register_host_memory(void* start, size_t bytes);
bool unregister_host_memory(void* start);

/// The allocation that holds an address, or null. An address just behind the end belongs to it too.
const Allocation* find_allocation(const void* address);

/// Bytes in use on a device.
size_t used_memory(int device);

/// Ends the program unless a device's work may access all of a range: its own memory, or host memory known to
/// CUDA.
void check_device_range(const void* start, size_t bytes, int device, const std::string& what);

/// Host code must not touch device memory. With AddressSanitizer it is poisoned except while device work
/// runs.
void open_device_memory();
void close_device_memory();

}  // namespace standin
