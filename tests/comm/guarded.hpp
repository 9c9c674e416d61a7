#pragma once

#include "base/bfloat16.hpp"
#include "comm/comm.hpp"
#include "comm/comm_backend.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace gpt::test {

constexpr double sentinel = -77;

inline double to_double(double number) { return number; }
inline double to_double(bfloat16 number) { return static_cast<float>(number); }

/// An array with sentinels on both sides, in the memory that a Comm prefers. What the host writes reaches the
/// device with `given`, and comes back with `take`; where host memory is the device's, both do nothing.
template <class T>
class Guarded {
public:
  Guarded(Comm& comm, int64_t count) : count_(count) {
    const int64_t size = count + 2 * guard;
    if (Allocator* const allocator = comm.allocator()) {
      shared_ = Buffer(*allocator, size * static_cast<int64_t>(sizeof(T)));
      values_ = static_cast<T*>(shared_.data());
    } else {
      private_.resize(static_cast<size_t>(size));
      values_ = private_.data();
    }
    if (!lies_in_host_memory()) on_device_ = TensorBuffer(device(), dtype_of<T>(), {size});
    for (int64_t i = -guard; i < count + guard; ++i) (*this)[i] = T(sentinel);
  }

  /// Where a Comm finds it.
  Tensor tensor() {
    const Tensor all = lies_in_host_memory() ? on_host() : *on_device_;
    return all.flat({guard, guard + count_});
  }
  /// The same after the host's values have come there.
  Tensor given(Queue& queue) {
    if (!lies_in_host_memory()) queue.copy(on_device_, on_host());
    return tensor();
  }
  /// The host has the device's values when the queue has come so far.
  void take(Queue& queue) {
    if (!lies_in_host_memory()) queue.copy(on_host(), on_device_);
  }
  /// And now.
  void fetch(Queue& queue) {
    take(queue);
    queue.synchronize();
  }

  T& operator[](int64_t i) { return values_[i + guard]; }
  double at(int64_t i) const { return to_double(values_[i + guard]); }
  int64_t size() const { return count_; }

  void fill(Range range, const std::function<double(int64_t)>& f) {
    for (int64_t i = range.begin; i < range.end; ++i) (*this)[i] = T(static_cast<float>(f(i)));
  }
  int64_t differences(Range range, const std::function<double(int64_t)>& f) const {
    int64_t wrong = 0;
    for (int64_t i = range.begin; i < range.end; ++i) wrong += at(i) != f(i);
    return wrong;
  }
  bool intact() const {
    for (int64_t i = 0; i < guard; ++i) {
      if (at(-1 - i) != sentinel || at(count_ + i) != sentinel) return false;
    }
    return true;
  }

private:
  static constexpr int64_t guard = 64;

  Tensor on_host() { return {values_, dtype_of<T>(), {count_ + 2 * guard}}; }

  int64_t count_;
  Buffer shared_;
  std::vector<T> private_;
  T* values_ = nullptr;
  TensorBuffer on_device_;
};

/// Integers whose sums over 8 ranks are exact even in bf16.
inline double value(int rank, int64_t i) { return static_cast<double>((i * 7 + rank * 5) % 17 - 8); }

inline double sum(int ranks, int64_t i) {
  double total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += value(rank, i);
  return total;
}

}  // namespace gpt::test
