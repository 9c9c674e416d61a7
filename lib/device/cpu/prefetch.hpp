#pragma once

#include <cstddef>
#include <cstdint>
#include <hwy/cache_control.h>

namespace gpt {

/// Asks for the cache lines of `count` elements that lie so far behind `p` that they arrive when an array
/// read from beginning to end at the memory's pace gets there: the processor's own prefetching starts anew at
/// every page. What lies beyond the array is not read.
template <class Element>
HWY_INLINE void prefetch_ahead(const Element* p, int64_t count) {
  constexpr int64_t distance = 2048, line = 64;
  const auto* bytes = reinterpret_cast<const std::byte*>(p);
  for (int64_t at = 0; at < count * static_cast<int64_t>(sizeof(Element)); at += line)
    hwy::Prefetch(bytes + distance + at);
}

}  // namespace gpt
