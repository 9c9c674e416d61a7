#include "train/buckets.hpp"

#include <algorithm>

namespace gpt {

Buckets::Buckets(const Layout& layout, int64_t bytes) : of_section_(layout.sections().size()) {
  const auto add = [&](int64_t section) {
    const Range range = layout.sections()[static_cast<size_t>(section)].range;
    const bool joins = !ranges_.empty() && range.end == ranges_.back().begin &&
                       ranges_.back().size() * static_cast<int64_t>(sizeof(float)) < bytes;
    if (joins)
      ranges_.back().begin = range.begin;
    else
      ranges_.push_back(range);
    of_section_[static_cast<size_t>(section)] = count() - 1;
  };
  add(layout.norm_section());
  for (int64_t block = layout.norm_section() - 1; block >= 0; --block) add(layout.block_section(block));
  add(layout.embedding_section());
  sections_.resize(ranges_.size());
  for (const int64_t bucket : of_section_) ++sections_[static_cast<size_t>(bucket)];
}

int64_t Buckets::largest() const { return std::ranges::max_element(ranges_, {}, &Range::size)->size(); }

}  // namespace gpt
