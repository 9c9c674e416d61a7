#pragma once

#include "comm/comm.hpp"
#include "comm/nccl/nccl_group.hpp"
#include "comm/node_layout.hpp"
#include "device/device.hpp"

#include <memory>

namespace gpt {

/// Groups of ranks that NCCL connects, as a Comm uses them; they outlive it.
struct NcclGroups {
  const NcclGroup& world;
  const NcclGroup* node = nullptr;  ///< ranks of this one's node
  const NcclGroup* lane = nullptr;  ///< one rank of each node; null on ranks beyond the lanes
};

/// Flat: every rank on one node. Hierarchical: reduce-scatter in the node, all-reduce in the lanes,
/// all-gather in the node, where there are several nodes with several ranks (docs/gpus-communication.md).
/// @param layout  for flat sums one node; with several, `groups` has them
std::unique_ptr<Comm> make_nccl_comm(const NcclGroups& groups, const NodeOfRank& layout, const CommPlan& plan,
                                     Device& device);

}  // namespace gpt
