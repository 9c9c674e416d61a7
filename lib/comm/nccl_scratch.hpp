#pragma once

#include "comm/comm_plan.hpp"

#include <cstdint>

namespace gpt {

/// Elements of a lane that sums over GPUs take through the hops at a time: whole blocks of every node's part.
int64_t nccl_lane_block(const CommPlan& plan, int64_t nodes);

/// Bytes of GPU memory that a communicator of NCCL allocates for what its hops round.
/// @param ranks_of_node  of this rank's node
/// @param nodes          that its lane reaches
int64_t nccl_scratch_bytes(const CommPlan& plan, int64_t ranks_of_node, int64_t nodes);

/// Of one rounding hop between so many ranks, of which `piece` elements each are under way at a time.
int64_t rounded_hop_bytes(int64_t ranks, int64_t piece);

}  // namespace gpt
