#pragma once

#include "device/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace gpt {

/// Where big buffers come from: a device's own memory, or what a Comm supplies (shared memory, registered
/// memory). Outlives its buffers.
class Allocator {
public:
  virtual ~Allocator() = default;
  /// Zeroed memory aligned to 64 bytes at least. @throws Error if there is none
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* data, int64_t bytes) = 0;
};

/// Owner of memory from an Allocator.
class Buffer {
public:
  Buffer() = default;
  Buffer(Allocator& allocator, int64_t bytes)
      : allocator_(&allocator), data_(allocator.allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) allocator_->release(data_, bytes_);
  }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

private:
  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// A Buffer with the shape of what it holds.
class TensorBuffer {
public:
  TensorBuffer() = default;
  TensorBuffer(Allocator& allocator, DType dtype, std::initializer_list<int64_t> shape)
      : buffer_(allocator, bytes_of(dtype, shape)), tensor_(buffer_.data(), dtype, shape) {}

  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }
  operator Tensor() const { return tensor_; }

private:
  static int64_t bytes_of(DType dtype, std::initializer_list<int64_t> shape) {
    int64_t bytes = size_of(dtype);
    for (int64_t extent : shape) bytes *= extent;
    return bytes;
  }

  Buffer buffer_;
  Tensor tensor_;
};

}  // namespace gpt
