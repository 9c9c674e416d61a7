#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/console.hpp"
#include "train/preparation.hpp"
#include "train/threads.hpp"

namespace gpt {

/// Ranks, nodes, cores and threads, and what is odd about them. Collective.
void announce_ranks(Console& console, const World& world, const ThreadChoice& threads, const Device& device,
                    const Comm& comm);

/// Model, data, batch, learning rate, who reads what, and where the run begins. Collective.
void announce_run(Console& console, const World& world, const PreparedRun& run);

}  // namespace gpt
