#pragma once

#include <algorithm>
#include <cstdint>

namespace gpt {

constexpr int64_t ceil_div(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
constexpr int64_t round_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

/// Half-open range of elements or items.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  constexpr int64_t size() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool operator==(const Range&) const = default;
};

/// Empty if they have nothing in common.
constexpr Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

constexpr bool contains(Range outer, Range inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

constexpr Range shifted(Range range, int64_t offset) { return {range.begin + offset, range.end + offset}; }

/// Part `index` of `total` items cut into `parts` contiguous ranges whose sizes differ by one at most.
/// Without overflow for every total below 2^63 / parts.
constexpr Range part_of(int64_t total, int64_t parts, int64_t index) {
  return {total * index / parts, total * (index + 1) / parts};
}

}  // namespace gpt
