#pragma once

#include "comm/nccl/nccl_calls.hpp"
#include "comm/nccl/nccl_group.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"

#include <cstdint>

namespace gpt {

/// Tries an all-reduce of `bytes` over all ranks. Seconds that it takes on the slowest of them. Collective.
/// @throws Error(rank_failed) if it fails, is wrong or does not end within `timeout` seconds; says how GPUs
/// of
///         a node come to see each other
double try_all_reduce(const World& world, const NcclGroup& group, NcclCalls& calls, Device& device,
                      int64_t bytes, double timeout);

}  // namespace gpt
