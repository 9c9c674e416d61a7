#include "train/stragglers.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

namespace gpt {

Stragglers::Stragglers(std::vector<std::string> hosts, std::vector<int64_t> sequences)
    : hosts_(std::move(hosts)), sequences_(std::move(sequences)), slow_(hosts_.size()) {
  expects(hosts_.size() == sequences_.size());
}

double Stragglers::a_sequence(const IntervalTimes& times, size_t rank) const {
  return times.of_rank[rank].compute / static_cast<double>(std::max<int64_t>(sequences_[rank], 1));
}

double Stragglers::median(const IntervalTimes& times) const {
  std::vector<double> all;
  for (size_t rank = 0; rank < hosts_.size(); ++rank) all.push_back(a_sequence(times, rank));
  // The lower one of two in the middle: of two ranks, the slower one is measured by the faster.
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::ranges::nth_element(all, middle);
  return *middle;
}

std::vector<int> Stragglers::slowest(const IntervalTimes& times, size_t count) const {
  std::vector<int> ranks(hosts_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranks.size()));
  std::ranges::partial_sort(ranks, end, std::greater{},
                            [&](int rank) { return a_sequence(times, static_cast<size_t>(rank)); });
  ranks.erase(end, ranks.end());
  return ranks;
}

std::vector<std::string> Stragglers::add(const IntervalTimes& times) {
  expects(times.of_rank.size() == hosts_.size());
  const double middle = median(times);
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    slow_[rank] = a_sequence(times, rank) > clearly * middle ? slow_[rank] + 1 : 0;
    if (slow_[rank] != intervals) continue;
    const double compute = times.of_rank[rank].compute;
    lines.push_back(
        fmt::format("warning: rank {} on {} is slow, the others wait for it: for {} intervals it computed at "
                    "least {:.2f} times as long as the median of the ranks; last {:.1f} ms a step, {:.1f} ms "
                    "would be the median's for its {} sequences",
                    rank, hosts_[rank], intervals, clearly, compute * 1e3,
                    middle * static_cast<double>(sequences_[rank]) * 1e3, sequences_[rank]));
  }
  return lines;
}

}  // namespace gpt
