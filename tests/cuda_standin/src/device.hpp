#pragma once

#include <cuda_runtime.h>

namespace standin {

int device_count();
/// The device of this thread, as cudaSetDevice set it.
int current_device();

/// Keeps an error for cudaGetLastError, and returns it.
cudaError_t note(cudaError_t error);

/// Limits of every device, those of sm_90.
inline constexpr int kMaxThreads = 1024;
inline constexpr size_t kSharedPerBlock = 48 * 1024;
inline constexpr size_t kSharedPerBlockOptIn = 227 * 1024;
inline constexpr size_t kSharedPerMultiprocessor = 228 * 1024;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr int kBlocksPerMultiprocessor = 32;

}  // namespace standin
