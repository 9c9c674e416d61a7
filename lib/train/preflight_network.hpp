#pragma once

#include "comm/comm_session.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/preflight_finding.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// How fast this rank's node sums with itself and with others: bus bandwidth, bytes a second that each
/// member sends and receives (2(n−1)/n of a message for n members; n ranks inside the node, 2 nodes between).
struct NodeBandwidth {
  std::optional<double> inside;           ///< nothing: the node has one rank
  std::optional<double> between;          ///< with the best of its partners; nothing: there is one node
  std::vector<std::string> wrong_sums{};  ///< a sentence for each
};

/// Node pairs that measure at the same time, round by round, so that each node meets several others: one slow
/// node does not make its partners look slow. By the circle method of tournaments.
/// @return partner of `node` in the round, or nothing: it rests
std::optional<int> partner_of(int node, int nodes, int round);

/// Partners that each node gets, at most.
constexpr int measured_partners = 3;

/// Connects the ranks of a part of the world, as training connects all.
using MakeSession = std::function<std::unique_ptr<CommSession>(const World& part)>;

/// All-reduces of 4 MiB, small enough to take seconds on a bad network, each the fastest of several: first
/// inside all nodes, then between pairs of nodes. Collective.
NodeBandwidth measure_bandwidth(const World& world, Device& device, const MakeSession& make_session);

/// Nodes that are so many times slower than the median, inside or to the best of their partners, and those
/// with wrong sums. @param bandwidths  by node  @param slow_factor  0: none is too slow
Findings judge_bandwidth(const std::vector<NodeBandwidth>& bandwidths, double slow_factor);

}  // namespace gpt
