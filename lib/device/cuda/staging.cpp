#include "device/cuda/staging.hpp"

#include "base/integers.hpp"
#include "device/cuda/check.hpp"

namespace gpt {

Staging::Slot& Staging::take(int64_t bytes) {
  constexpr int64_t unit = 4096;
  for (Slot& slot : slots_) {
    if (slot.memory.bytes() < bytes) continue;
    const cudaError_t status = cudaEventQuery(slot.used.get());
    if (status == cudaSuccess) return slot;
    if (status != cudaErrorNotReady) check_cuda(status);
  }
  cudaEvent_t used = nullptr;
  check_cuda(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));
  slots_.push_back({.memory = {}, .used = CudaEventHandle(used)});
  slots_.back().memory = CudaMemory(CudaMemory::Place::pinned_host, round_up(bytes, unit));
  return slots_.back();
}

}  // namespace gpt
