#include "train/device_state.hpp"

#include <algorithm>

namespace gpt {
namespace {

/// What `data`, elements [held) of a flat tensor, has of [range).
Tensor part(Tensor data, Range held, Range range) { return data.flat(shifted(range, -held.begin)); }

/// to = from, where they overlap; `to` and `from` hold the elements [to_held) and [from_held).
void copy_common(Tensor to, Range to_held, Tensor from, Range from_held, Queue& queue) {
  const Range both = common(to_held, from_held);
  if (!both.empty()) queue.copy(part(to, to_held, both), part(from, from_held, both));
}

}  // namespace

DeviceState whole_state(std::string name, Tensor data) {
  return {.name = std::move(name), .shards = {{{0, data.size()}, data}}, .shared_out = false};
}

void load_device_state(const std::string& file, const Layout& layout, const std::vector<DeviceState>& states,
                       Queue& queue) {
  std::vector<StateReader> readers;
  for (const DeviceState& state : states)
    readers.push_back({state.name, [&](Range elements, Tensor block) {
                         for (const StateShard& shard : state.shards)
                           copy_common(shard.data, shard.elements, block, elements, queue);
                         queue.synchronize();  // the block's memory is used again
                       }});
  read_state(file, layout, readers);
}

SavedParts::SavedParts(const std::vector<DeviceState>& states, const Layout& layout, const Buckets& buckets,
                       Comm& comm, Device& device, Queue& queue) {
  const Range mine = checkpoint_part(layout, comm.size(), comm.rank());
  for (const DeviceState& state : states) {
    memory_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(mine.size())));
    const Tensor saved(memory_.back().get(), DType::f32, {mine.size()});
    state_.push_back({state.name, saved, mine.begin});
    if (!state.shared_out) {
      for (const StateShard& shard : state.shards)
        copy_common(saved, mine, shard.data, shard.elements, queue);
      continue;
    }
    const TensorBuffer gathered(device, DType::f32, {buckets.largest()});
    for (const Range& bucket : buckets.ranges()) {
      const Tensor whole = gathered->flat({0, bucket.size()});
      for (const StateShard& shard : state.shards)
        copy_common(whole, bucket, shard.data, shard.elements, queue);
      comm.all_gather(whole, queue);
      copy_common(saved, mine, whole, bucket, queue);
    }
    queue.synchronize();
  }
  queue.synchronize();
}

int64_t SavedSize::bytes(const Layout& layout, const Buckets& buckets, int ranks, int rank) const {
  const int64_t parts = states * checkpoint_part(layout, ranks, rank).size();
  return (parts + (gathers ? buckets.largest() : 0)) * size_of(DType::f32);
}

}  // namespace gpt
