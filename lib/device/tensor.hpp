#pragma once

#include "base/contracts.hpp"
#include "base/integers.hpp"
#include "device/dtype.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpt {

/// Non-owning view of a dense row-major array on some device. The default tensor is empty: "not there".
class Tensor {
public:
  static constexpr int max_rank = 4;

  Tensor() = default;
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> shape)
      : data_(static_cast<std::byte*>(data)), dtype_(dtype), rank_(static_cast<int>(shape.size())) {
    expects(shape.size() <= max_rank);
    int i = 0;
    for (int64_t extent : shape) shape_[static_cast<size_t>(i++)] = extent;
  }

  explicit operator bool() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t dim(int axis) const {
    expects(axis >= 0 && axis < rank_);
    return shape_[static_cast<size_t>(axis)];
  }
  int64_t size() const {
    int64_t count = data_ == nullptr ? 0 : 1;
    for (int i = 0; i < rank_; ++i) count *= shape_[static_cast<size_t>(i)];
    return count;
  }
  int64_t bytes() const { return size() * size_of(dtype_); }

  /// Rows of the matrix that this tensor is when all axes but the last are joined.
  int64_t rows() const { return rank_ == 0 ? 0 : size() / dim(rank_ - 1); }
  int64_t columns() const { return dim(rank_ - 1); }

  void* raw() const { return data_; }
  template <class T>
  T* data() const {
    expects(data_ == nullptr || dtype_ == dtype_of<T>());
    return reinterpret_cast<T*>(data_);
  }

  /// The same elements under another shape.
  Tensor view(std::initializer_list<int64_t> shape) const {
    Tensor result(data_, dtype_, shape);
    expects(result.size() == size());
    return result;
  }

  /// Elements [range) of the flat array.
  Tensor flat(Range range) const {
    expects(range.begin >= 0 && range.end <= size());
    return {data_ + range.begin * size_of(dtype_), dtype_, {range.size()}};
  }

  /// Entries [range) along the first axis.
  Tensor slice(Range range) const {
    expects(rank_ >= 1 && range.begin >= 0 && range.end <= dim(0));
    Tensor result = *this;
    const int64_t stride = dim(0) == 0 ? 0 : size() / dim(0);
    result.data_ += range.begin * stride * size_of(dtype_);
    result.shape_[0] = range.size();
    return result;
  }

private:
  std::byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  int rank_ = 0;
  std::array<int64_t, max_rank> shape_{};
};

}  // namespace gpt
