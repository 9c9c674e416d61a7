#include "comm/exchange.hpp"

#include "base/integers.hpp"

#include <new>

namespace gpt {

Task Exchange::all_reduce(const Pieces& pieces, Slot slot) {
  co_await reduce(pieces, slot);
  co_await gather(pieces, slot);
}

Tensor Scratch::take(DType dtype, int64_t elements) {
  constexpr int64_t cache_line = 64;
  const int64_t bytes = elements * size_of(dtype) + cache_line;
  if (used_ == chunks_.size()) chunks_.emplace_back();
  Chunk& chunk = chunks_[used_++];
  if (chunk.bytes < bytes) {
    chunk.data = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
    chunk.bytes = bytes;
  }
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(chunk.data.get()));
  return {chunk.data.get() + (round_up(address, cache_line) - address), dtype, {elements}};
}

}  // namespace gpt
