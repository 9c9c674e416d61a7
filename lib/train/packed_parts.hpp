#pragma once

#include "base/integers.hpp"
#include "train/device_state.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// Ranges of a flat buffer that lie side by side in a buffer of nothing else: what a rank holds of state that
/// is shared out.
class PackedParts {
public:
  /// @param ranges  ascending, apart from each other
  explicit PackedParts(const std::vector<Range>& ranges);

  int64_t size() const { return size_; }  ///< elements of the packed buffer

  /// Where elements of the flat buffer lie in the packed one. @param elements  within one of the ranges
  Range at(Range elements) const;

  /// All of `packed`, a buffer of size() elements, as parts of the flat one.
  std::vector<StateShard> shards(Tensor packed) const;

private:
  struct Part {
    Range elements;
    int64_t offset = 0;
  };
  std::vector<Part> parts_;
  int64_t size_ = 0;
};

}  // namespace gpt
