#pragma once

#include "comm/world.hpp"
#include "train/device_state.hpp"

#include <string>
#include <vector>

namespace gpt {

/// As load_device_state, of a checkpoint that only the ranks of `node` see: each of these reads a part of it,
/// block by block, and sends it to all ranks. Collective.
/// @throws Error(damaged) naming file, tensor and block, on a rank that reads; the others wait for it, so
///         the job must end (World::fail)
void load_from_node(const World& world, int node, const std::string& file, const Layout& layout,
                    const std::vector<DeviceState>& states, Queue& queue);

}  // namespace gpt
