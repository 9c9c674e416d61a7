#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// The node of every rank, by rank; nodes are numbered in the order of their first rank.
using NodeOfRank = std::vector<int>;

/// Reads "3,1" (ranks per node, in rank order) or "@0,1,0,1" (a node for each rank).
/// @throws Error(usage) unless `text` has that form and covers exactly `ranks` ranks
NodeOfRank parse_node_layout(std::string_view text, int ranks);

/// The same groups with their nodes numbered in the order of their first rank.
NodeOfRank number_nodes(const NodeOfRank& labels);

/// @throws Error(usage) if `layout` puts ranks on one node that `found` has on different ones
void validate_splits_only(const NodeOfRank& layout, const NodeOfRank& found,
                          const std::vector<std::string>& hosts);

/// A sentence for the log when ranks of one host stand on different nodes; empty when there are none.
std::string host_disagreement(const NodeOfRank& layout, const std::vector<std::string>& hosts);

/// A sentence for the log that names the hosts which a layout that the user gave splits; empty when it splits
/// none.
std::string describe_split(const NodeOfRank& layout, const std::vector<std::string>& hosts);

/// How one rank sits in a layout.
struct NodePlace {
  int node = 0;
  int nodes = 1;
  int index = 0;  ///< of the rank on its node
  int size = 1;   ///< ranks of its node

  bool operator==(const NodePlace&) const = default;
};
NodePlace place_of(int rank, const NodeOfRank& layout);

/// Ranks on every node, by node.
std::vector<int> ranks_per_node(const NodeOfRank& layout);

}  // namespace gpt
