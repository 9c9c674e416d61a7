#include "device/cpu/cpu_queue.hpp"

#include "device/cpu/parallel.hpp"

#include <cstddef>
#include <cstring>

namespace gpt {
namespace {

constexpr int64_t grain = 64 << 10;  // bytes: below it one core is faster than waking the others

}  // namespace

void CpuQueue::copy(Tensor dst, Tensor src) {
  expects(dst.dtype() == src.dtype() && dst.size() == src.size());
  auto* to = static_cast<std::byte*>(dst.raw());
  const auto* from = static_cast<const std::byte*>(src.raw());
  parallel_ranges(threads_, dst.bytes(), grain, [&](Range range, int) {
    std::memcpy(to + range.begin, from + range.begin, static_cast<size_t>(range.size()));
  });
}

void CpuQueue::zero(Tensor dst) {
  auto* to = static_cast<std::byte*>(dst.raw());
  parallel_ranges(threads_, dst.bytes(), grain, [&](Range range, int) {
    std::memset(to + range.begin, 0, static_cast<size_t>(range.size()));
  });
}

}  // namespace gpt
