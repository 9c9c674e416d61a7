#include "train/owned_parts.hpp"

#include <algorithm>

namespace gpt {

std::vector<Range> OwnedParts::all_updated() const {
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

OwnedParts all_parts(const Buckets& buckets) {
  OwnedParts parts;
  for (const Range& bucket : buckets.ranges()) {
    parts.updated.push_back({bucket});
    parts.counted.push_back(bucket);
  }
  return parts;
}

OwnedParts owned_parts(const Buckets& buckets, const Comm& comm) {
  OwnedParts parts{.sharded = true, .updated = {}, .counted = {}};
  for (const Range& bucket : buckets.ranges()) {
    const Range owned = shifted(comm.owned(bucket.size()), bucket.begin);
    const Range tail = shifted(comm.tail(bucket.size()), bucket.begin);
    std::vector<Range>& updated = parts.updated.emplace_back();
    if (!owned.empty()) updated.push_back(owned);
    if (!tail.empty()) updated.push_back(tail);
    if (!owned.empty() && comm.is_first_owner()) parts.counted.push_back(owned);
    if (!tail.empty() && comm.rank() == 0) parts.counted.push_back(tail);
  }
  return parts;
}

}  // namespace gpt
