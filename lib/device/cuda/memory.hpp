#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt {

/// Sole owner of memory that is not zeroed, on the current GPU or pinned on the host. It is left alone when
/// an exception passes: giving it back waits for all work of the GPU, some of which may never end.
class CudaMemory {
public:
  enum class Place { device, pinned_host };

  CudaMemory() = default;
  /// @throws Error if there is not so much
  CudaMemory(Place place, int64_t bytes);
  CudaMemory(CudaMemory&& other) noexcept;
  CudaMemory& operator=(CudaMemory&& other) noexcept;
  ~CudaMemory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

private:
  Place place_ = Place::device;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Memory of the current GPU. @throws Error if there is not so much
void* allocate_on_gpu(int64_t bytes);
/// Gives it back, unless an exception passes.
void release_on_gpu(void* data);

/// Memory of the host that GPUs copy from and to directly. @throws Error if there is not so much
void* allocate_pinned(int64_t bytes);
/// Gives it back, unless an exception passes.
void release_pinned(void* data);

/// Memory that is kept from use to use, and grows when more is asked for.
class CudaScratch {
public:
  /// At least `bytes`, aligned to 256; what it held may be lost.
  std::byte* reserve(int64_t bytes) {
    if (bytes > memory_.bytes()) {
      memory_ = {};
      memory_ = CudaMemory(CudaMemory::Place::device, bytes);
    }
    return memory_.data();
  }
  int64_t bytes() const { return memory_.bytes(); }

private:
  CudaMemory memory_;
};

}  // namespace gpt
