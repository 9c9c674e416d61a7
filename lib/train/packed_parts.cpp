#include "train/packed_parts.hpp"

#include "base/contracts.hpp"

#include <algorithm>

namespace gpt {

PackedParts::PackedParts(const std::vector<Range>& ranges) {
  for (const Range& range : ranges) {
    expects(parts_.empty() || parts_.back().elements.end <= range.begin);
    parts_.push_back({range, size_});
    size_ += range.size();
  }
}

Range PackedParts::at(Range elements) const {
  const auto behind = std::ranges::upper_bound(
      parts_, elements.begin, {}, [](const Part& candidate) { return candidate.elements.begin; });
  expects(behind != parts_.begin());
  const Part& part = *std::prev(behind);
  expects(elements.end <= part.elements.end);
  return shifted(elements, part.offset - part.elements.begin);
}

std::vector<StateShard> PackedParts::shards(Tensor packed) const {
  std::vector<StateShard> shards;
  for (const Part& part : parts_)
    shards.push_back({part.elements, packed.flat({part.offset, part.offset + part.elements.size()})});
  return shards;
}

}  // namespace gpt
