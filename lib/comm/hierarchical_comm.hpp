#pragma once

#include "comm/comm.hpp"
#include "comm/grouping.hpp"
#include "device/host_sum.hpp"

#include <memory>

namespace gpt {

/// The order in which whoever adds so many whole summands does it: in_turn, as_tree.
using OrderOf = SumOrder (*)(int summands);

/// Collective over the groups.
/// @param order_of  of the ranks of a node, and with Inter::direct of the nodes; others have their own
std::unique_ptr<Comm> make_hierarchical_comm(const Grouping& grouping, const CommPlan& plan,
                                             OrderOf order_of);

}  // namespace gpt
