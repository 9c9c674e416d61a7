#include "train/shards.hpp"

#include <algorithm>

namespace gpt {
namespace {

/// Whether no rank before this one owns the same part.
bool is_first_owner(Comm& comm, Device& device) {
  const Range part = comm.owned(comm.size() * Comm::alignment);
  // Every rank's part by where it begins, 0 for none; sums with zeros are exact.
  std::vector<double> begins(static_cast<size_t>(comm.size()));
  const auto mine = static_cast<size_t>(comm.rank());
  if (!part.empty()) begins[mine] = static_cast<double>(part.begin + 1);
  const TensorBuffer table(device, DType::f64, {comm.size()});
  const Tensor host(begins.data(), DType::f64, {comm.size()});
  const std::unique_ptr<Queue> queue = device.make_communication_queue();
  queue->copy(table, host);
  comm.all_reduce(table, table, *queue);
  queue->copy(host, table);
  queue->synchronize();
  return std::ranges::find(begins, begins[mine]) == begins.begin() + comm.rank();
}

Range shifted(Range range, int64_t offset) { return {range.begin + offset, range.end + offset}; }

}  // namespace

std::vector<Range> Shards::all_updated() const {
  std::vector<Range> all;
  for (const std::vector<Range>& ranges : updated) all.insert(all.end(), ranges.begin(), ranges.end());
  std::ranges::sort(all, {}, &Range::begin);
  return all;
}

Shards whole_shards(const Buckets& buckets) {
  Shards shards;
  for (const Range& bucket : buckets.ranges()) {
    shards.updated.push_back({bucket});
    shards.counted.push_back(bucket);
  }
  return shards;
}

Shards owned_shards(const Buckets& buckets, Comm& comm, Device& device) {
  Shards shards{.sharded = true, .updated = {}, .counted = {}};
  const bool counts = is_first_owner(comm, device);
  for (const Range& bucket : buckets.ranges()) {
    const Range owned = shifted(comm.owned(bucket.size()), bucket.begin);
    const Range tail = shifted(comm.tail(bucket.size()), bucket.begin);
    std::vector<Range>& updated = shards.updated.emplace_back();
    if (!owned.empty()) updated.push_back(owned);
    if (!tail.empty()) updated.push_back(tail);
    if (!owned.empty() && counts) shards.counted.push_back(owned);
    if (!tail.empty() && comm.rank() == 0) shards.counted.push_back(tail);
  }
  return shards;
}

}  // namespace gpt
