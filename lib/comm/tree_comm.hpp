#pragma once

#include "comm/comm.hpp"
#include "comm/node_layout.hpp"
#include "comm/reduction_tree.hpp"

#include <memory>
#include <vector>

namespace gpt {

/// Whether the tree over the ranks first adds up each node: equal powers of two of consecutive ranks.
bool has_nodes_as_subtrees(const NodeOfRank& layout);

/// Sums along the one tree over the leaves of a global batch, so that they have the same bits whoever holds
/// which leaves: the summands of Comm::sum are the rank's aligned_subtrees. all_reduce and reduce_scatter add
/// one tensor a rank, in the tree over the ranks.
///
/// With one subtree of the same level on every rank that is as fast as any other sum, and hierarchical where
/// nodes hold a power of two of consecutive ranks. Otherwise each subtree travels by itself: a rank sends as
/// many times its gradient as it has subtrees. Collective over the world.
/// @param leaves_of_rank  consecutive, by rank; none is empty
/// @throws Error(usage) if the plan lets sums travel as bf16, whose bits depend on the layout
std::unique_ptr<Comm> make_tree_comm(const World& world, const CommPlan& plan,
                                     const std::vector<Range>& leaves_of_rank);

}  // namespace gpt
