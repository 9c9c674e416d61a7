#include "train/buckets.hpp"

#include "base/contracts.hpp"
#include "device/dtype.hpp"

#include <algorithm>

namespace gpt {

std::vector<int64_t> join_neighbours(std::span<const Range> ranges, int64_t bytes) {
  std::vector<int64_t> buckets;
  Range last;
  for (const Range& range : ranges) {
    const bool joins =
        !buckets.empty() && range.end == last.begin && last.size() * size_of(DType::f32) < bytes;
    last = joins ? Range{range.begin, last.end} : range;
    buckets.push_back(buckets.empty() ? 0 : buckets.back() + (joins ? 0 : 1));
  }
  return buckets;
}

Buckets::Buckets(const Layout& layout, int64_t bytes) : of_section_(layout.sections().size()) {
  const std::vector<int64_t> order = layout.backward_order();
  const std::vector<Range> sections = layout.ranges_in_backward_order();
  const std::vector<int64_t> joined = join_neighbours(sections, bytes);
  ranges_.resize(static_cast<size_t>(joined.back()) + 1);
  section_counts_.resize(ranges_.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto bucket = static_cast<size_t>(joined[i]);
    of_section_[static_cast<size_t>(order[i])] = joined[i];
    if (section_counts_[bucket]++ == 0) ranges_[bucket].end = sections[i].end;
    ranges_[bucket].begin = sections[i].begin;
  }
  for (const Range& bucket : ranges_)
    ensures(contains(layout.matrices(), bucket) || contains(layout.vectors(), bucket));
}

int64_t Buckets::largest() const { return std::ranges::max_element(ranges_, {}, &Range::size)->size(); }

}  // namespace gpt
