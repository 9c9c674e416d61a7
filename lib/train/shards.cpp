#include "train/shards.hpp"

#include <algorithm>

namespace gpt {

std::vector<Range> Shards::all_updated() const {
  std::vector<Range> all;
  for (const std::vector<Range>& ranges : updated) all.insert(all.end(), ranges.begin(), ranges.end());
  std::ranges::sort(all, {}, &Range::begin);
  std::vector<Range> joined;
  for (const Range& range : all)
    if (!joined.empty() && joined.back().end == range.begin)
      joined.back().end = range.end;
    else
      joined.push_back(range);
  return joined;
}

Shards whole_shards(const Buckets& buckets) {
  Shards shards;
  for (const Range& bucket : buckets.ranges()) {
    shards.updated.push_back({bucket});
    shards.counted.push_back(bucket);
  }
  return shards;
}

Shards owned_shards(const Buckets& buckets, const Comm& comm) {
  Shards shards{.sharded = true, .updated = {}, .counted = {}};
  for (const Range& bucket : buckets.ranges()) {
    const Range owned = shifted(comm.owned(bucket.size()), bucket.begin);
    const Range tail = shifted(comm.tail(bucket.size()), bucket.begin);
    std::vector<Range>& updated = shards.updated.emplace_back();
    if (!owned.empty()) updated.push_back(owned);
    if (!tail.empty()) updated.push_back(tail);
    if (!owned.empty() && comm.is_first_owner()) shards.counted.push_back(owned);
    if (!tail.empty() && comm.rank() == 0) shards.counted.push_back(tail);
  }
  return shards;
}

}  // namespace gpt
