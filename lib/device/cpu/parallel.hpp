#pragma once

#include "base/integers.hpp"

#include <algorithm>
#include <cstdint>
#include <omp.h>

namespace gpt {

/// Cuts `items` into one contiguous range per thread, in multiples of `grain`, and calls body(range, thread)
/// for each that is not empty; `thread` numbers the ranges and is never in use twice at a time. The cut
/// depends on nothing but the arguments: where OpenMP gives fewer threads (OMP_THREAD_LIMIT), each takes
/// several ranges.
template <class Body>
void parallel_ranges(int threads, int64_t items, int64_t grain, const Body& body) {
  const int64_t units = ceil_div(items, grain);
  const int team = static_cast<int>(std::clamp<int64_t>(units, 1, threads));
  if (team == 1) {
    body(Range{0, items}, 0);
    return;
  }
  // Always the whole team: a smaller one would make the OpenMP library end threads that the next call needs.
#pragma omp parallel num_threads(threads)
  {
    for (int thread = omp_get_thread_num(); thread < threads; thread += omp_get_num_threads()) {
      const Range part = part_of(units, threads, thread);
      const Range range{part.begin * grain, std::min(part.end * grain, items)};
      if (!range.empty()) body(range, thread);
    }
  }
}

}  // namespace gpt
