#pragma once

#include "base/integers.hpp"
#include "device/buffer.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// One working area of floats for each thread, kept between calls.
class ThreadScratch {
public:
  ThreadScratch(Allocator& allocator, int threads)
      : allocator_(&allocator), areas_(static_cast<size_t>(threads)) {}

  /// Makes every area hold `floats` at least; what they held is lost. Not inside a parallel region.
  void reserve(int64_t floats) {
    if (floats <= floats_) return;
    floats_ = round_up(floats, 1024);
    for (Buffer& area : areas_) area = Buffer(*allocator_, floats_ * static_cast<int64_t>(sizeof(float)));
  }

  float* of(int thread) const { return static_cast<float*>(areas_[static_cast<size_t>(thread)].data()); }

private:
  Allocator* allocator_;
  int64_t floats_ = 0;
  std::vector<Buffer> areas_;
};

/// Cuts a thread's area into parts, one after the other. Without an area (null) it only counts.
class ScratchCursor {
public:
  explicit ScratchCursor(float* area) : area_(area) {}

  float* take(int64_t floats) {
    float* part = area_ == nullptr ? nullptr : area_ + taken_;
    taken_ += floats;
    return part;
  }
  int64_t taken() const { return taken_; }

private:
  float* area_;
  int64_t taken_ = 0;
};

}  // namespace gpt
