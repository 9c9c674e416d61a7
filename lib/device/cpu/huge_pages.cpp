#include "device/cpu/huge_pages.hpp"

#include "base/error.hpp"
#include "base/integers.hpp"
#include "device/cpu/parallel.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace gpt {
namespace {

constexpr int64_t huge_page = int64_t{2} << 20;
constexpr int64_t cache_line = 64;

/// What is mapped for `bytes`. Their tail has small pages: whole huge ones would add up over the many buffers
/// of a model's activations.
int64_t mapped_bytes(int64_t bytes) { return round_up(bytes, sysconf(_SC_PAGESIZE)); }

[[noreturn]] void refuse(int64_t bytes) {
  throw Error(fmt::format("no memory for {:.1f} MiB: use a smaller --micro-batch or model, or more ranks",
                          static_cast<double>(bytes) / 0x1p20));
}

void* allocate_small(int64_t bytes) {
  void* data = std::aligned_alloc(cache_line, static_cast<size_t>(round_up(bytes, cache_line)));
  if (data == nullptr) refuse(bytes);
  std::memset(data, 0, static_cast<size_t>(bytes));
  return data;
}

/// mmap aligns to small pages only: map more, and give back what stands out.
std::byte* map_aligned(int64_t bytes) {
  const size_t mapped = static_cast<size_t>(bytes + huge_page);
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) refuse(bytes);
  auto* begin = static_cast<std::byte*>(raw);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(raw));
  const int64_t head = round_up(address, huge_page) - address;
  if (head > 0) munmap(begin, static_cast<size_t>(head));
  if (head < huge_page) munmap(begin + head + bytes, static_cast<size_t>(huge_page - head));
  return begin + head;
}

}  // namespace

void* allocate_pages(int64_t bytes, int threads) {
  if (bytes < huge_page) return allocate_small(std::max(bytes, cache_line));
  std::byte* data = map_aligned(mapped_bytes(bytes));
  // Advice only: a system without huge pages answers EINVAL, and small pages serve too.
  madvise(data, static_cast<size_t>(mapped_bytes(bytes)), MADV_HUGEPAGE);
  parallel_ranges(threads, bytes, huge_page, [&](Range range, int) {
    std::memset(data + range.begin, 0, static_cast<size_t>(range.size()));
  });
  return data;
}

void release_pages(void* data, int64_t bytes) {
  if (bytes < huge_page)
    std::free(data);
  else
    munmap(data, static_cast<size_t>(mapped_bytes(bytes)));
}

}  // namespace gpt
