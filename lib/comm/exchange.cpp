#include "comm/exchange.hpp"

#include "base/integers.hpp"

#include <array>
#include <new>

namespace gpt {

Task Exchange::all_reduce(const Pieces& pieces, Slot slot) {
  co_await reduce(pieces, slot);
  co_await gather(pieces, slot);
}

Task send_and_add(const Messages& messages, const std::vector<Tensor>& outgoing, int to,
                  const std::vector<Tensor>& mine, int from, Slot slot) {
  slot.scratch.restart();
  std::vector<Tensor> arrived;
  for (const Tensor& range : mine) arrived.push_back(slot.scratch.take(range.dtype(), range.size()));
  co_await send_and_receive(messages, outgoing, to, arrived, from, slot);
  const SumOrder order = in_turn(2);
  for (size_t i = 0; i < mine.size(); ++i) {
    const std::array<Summand, 2> both = {Summand{arrived[i].raw(), mine[i].dtype()},
                                         Summand{mine[i].raw(), mine[i].dtype()}};
    sum_arrays(mine[i], both, order);
  }
}

Task send_and_receive(const Messages& messages, const std::vector<Tensor>& outgoing, int to,
                      const std::vector<Tensor>& incoming, int from, Slot slot) {
  Requests requests(slot.pool);
  for (const Tensor& range : incoming) messages.receive(requests, range, from, slot.tag);
  for (const Tensor& range : outgoing) messages.send(requests, range, to, slot.tag);
  co_await until([&] { return requests.are_done(); });
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
