#pragma once

#include "model/layout.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// Ranges of the flat buffers that travel as one message: sections that backward finishes one after the other
/// and that lie side by side, until they are `bytes` long (f32).
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
  const std::vector<int64_t>& sections() const { return sections_; }

  int64_t largest() const;  ///< elements

private:
  std::vector<Range> ranges_;
  std::vector<int64_t> of_section_;
  std::vector<int64_t> sections_;
};

}  // namespace gpt
