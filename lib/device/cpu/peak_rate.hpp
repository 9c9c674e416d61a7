#pragma once

#include "base/stopwatch.hpp"
#include "device/cpu/parallel.hpp"

#include <algorithm>
#include <vector>

namespace gpt {

/// The best rate of `rounds` rounds of `work`, which returns how much it did: in the others something else
/// had the core.
template <class Work>
double best_rate(int rounds, const Work& work) {
  double best = 0.0;
  for (int round = 0; round < rounds; ++round) {
    const Stopwatch watch;
    const double done = work();
    best = std::max(best, done / watch.seconds());
  }
  return best;
}

/// The same where each of `threads` threads does all of `work` at once. Many short rounds: on a busy machine
/// all threads seldom have their cores for long.
template <class Work>
double best_rate_of(int threads, const Work& work) {
  std::vector<double> done(static_cast<size_t>(threads));
  constexpr int rounds = 64;
  return best_rate(rounds, [&] {
    parallel_ranges(threads, threads, 1, [&](Range range, int) {
      for (int64_t i = range.begin; i < range.end; ++i) done[static_cast<size_t>(i)] = work();
    });
    double all = 0.0;
    for (const double some : done) all += some;
    return all;
  });
}

}  // namespace gpt
