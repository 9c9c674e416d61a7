#include "train/device_state.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <initializer_list>

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

std::vector<StateReader> state_readers(const std::vector<DeviceState>& states, Queue& queue,
                                       const std::function<void()>& tick) {
  std::vector<StateReader> readers;
  for (const DeviceState& state : states)
    readers.push_back({state.name, [&state, &queue, tick](Range elements, Tensor block) {
                         for (const StateShard& shard : state.shards)
                           copy_common(shard.data, shard.elements, block, elements, queue);
                         queue.synchronize();  // the block's memory is used again
                         tick();
                       }});
  return readers;
}

void load_device_state(const std::string& file, const Layout& layout, const std::vector<DeviceState>& states,
                       Queue& queue, const std::function<void()>& tick) {
  read_state(file, layout, state_readers(states, queue, tick));
}

SavedParts::SavedParts(const std::vector<DeviceState>& states, const Layout& layout, const Buckets& buckets,
                       Comm& comm, Device& device)
    : SavedParts(states, checkpoint_part(layout, comm.size(), comm.rank()), buckets, comm, device) {}

SavedParts::SavedParts(const std::vector<DeviceState>& states, Range mine, const Buckets& buckets, Comm& comm,
                       Device& device)
    : mine_(mine),
      buckets_(buckets),
      comm_(comm),
      ready_(device.make_event()),
      copied_(device.make_event()),
      copies_(device.make_copy_queue()) {
  for (const DeviceState& state : states) {
    memory_.emplace_back(device.host_memory(), DType::f32, std::initializer_list<int64_t>{mine_.size()});
    state_.push_back({state.name, memory_.back(), mine_.begin});
  }
  if (std::ranges::any_of(states, &DeviceState::shared_out))
    gathered_ = TensorBuffer(device, DType::f32, {buckets.largest()});
}

void SavedParts::take(const std::vector<DeviceState>& states, Queue& compute) {
  expects(states.size() == state_.size());
  compute.record(*ready_);
  copies_->wait(*ready_);
  for (size_t i = 0; i < states.size(); ++i) {
    expects(states[i].name == state_[i].name);
    if (states[i].shared_out)
      gather(states[i], memory_[i], compute);
    else
      for (const StateShard& shard : states[i].shards)
        copy_common(memory_[i], mine_, shard.data, shard.elements, *copies_);
  }
  compute.record(*ready_);
  copies_->wait(*ready_);
  copies_->record(*copied_);
}

void SavedParts::gather(const DeviceState& state, Tensor saved, Queue& compute) {
  for (const Range& bucket : buckets_.ranges()) {
    const Tensor whole = gathered_->flat({0, bucket.size()});
    for (const StateShard& shard : state.shards)
      copy_common(whole, bucket, shard.data, shard.elements, compute);
    comm_.all_gather(whole, compute);
    copy_common(saved, mine_, whole, bucket, compute);
  }
}

int64_t SavedSize::copied(const Layout& layout, int ranks, int rank) const {
  return states * checkpoint_part(layout, ranks, rank).size() * size_of(DType::f32);
}

int64_t SavedSize::gathered(const Buckets& buckets) const {
  return gathers ? buckets.largest() * size_of(DType::f32) : 0;
}

}  // namespace gpt
