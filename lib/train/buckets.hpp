#pragma once

#include "model/layout.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// In which bucket each of `ranges` travels, in the order in which they are complete: neighbours that lie
/// side by side share one until it is `bytes` long (f32).
std::vector<int64_t> join_neighbours(std::span<const Range> ranges, int64_t bytes);

/// Ranges of the flat buffers that travel as one message: sections joined in the order of backward. A bucket
/// is all matrices or all vectors, since what the model reads of these may have different types.
class Buckets {
public:
  Buckets(const Layout& layout, int64_t bytes);

  /// In the order in which backward finishes them; forward uses them in the opposite one.
  const std::vector<Range>& ranges() const { return ranges_; }
  int64_t count() const { return static_cast<int64_t>(ranges_.size()); }
  Range operator[](int64_t bucket) const { return ranges_[static_cast<size_t>(bucket)]; }

  /// Which bucket a section is in.
  int64_t of_section(int64_t section) const { return of_section_[static_cast<size_t>(section)]; }
  /// How many sections each bucket has.
  const std::vector<int64_t>& section_counts() const { return section_counts_; }

  int64_t largest() const;  ///< elements

private:
  std::vector<Range> ranges_;
  std::vector<int64_t> of_section_;
  std::vector<int64_t> section_counts_;
};

}  // namespace gpt
