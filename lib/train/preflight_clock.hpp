#pragma once

#include "comm/world.hpp"
#include "train/preflight_finding.hpp"

#include <vector>

namespace gpt {

/// A node's clock, as it looks from rank 0.
struct ClockReading {
  double ahead = 0.0;        ///< seconds; of rank 0's node itself 0
  double uncertainty = 0.0;  ///< seconds to either side: half of the quickest message's way there and back
};

/// Seconds that a node's clock may be off. Batch systems sign messages with the time, logs of nodes are put
/// side by side by it, and leases of run folders are renewed every ten seconds.
constexpr double largest_clock_skew = 2.0;

/// The clocks of all nodes against that of rank 0: it asks the first rank of each for the time, some times,
/// and believes the answer that came back soonest, which was given half of that time ago (Cristian 1989,
/// "Probabilistic clock synchronization"). Collective.
/// @return by node; on other ranks than 0 empty
std::vector<ClockReading> measure_clocks(const World& world, const std::vector<int>& node_of_rank);

/// Nodes whose clock is further from the median of all than is allowed, whatever the messages took. Of two
/// nodes nobody can say which one is wrong: it is the one without rank 0.
Findings judge_clocks(const std::vector<ClockReading>& clocks, double largest_skew = largest_clock_skew);

}  // namespace gpt
