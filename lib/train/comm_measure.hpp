#pragma once

#include "comm/comm_session.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/comm_choice.hpp"
#include "train/options.hpp"

#include <vector>

namespace gpt {

/// How long each of the candidates takes for what a step sends: its buckets of gradients, and with ZeRO its
/// weights as the model reads them, one bucket of each size as often as it occurs. The least of many times on
/// the slowest rank, taken in turns; about a second for each candidate, unless one time of each size takes
/// longer. Collective; all ranks get the same figures.
/// @param options  their model complete
void measure_candidates(const World& world, CommSession& session, Device& device, const TrainOptions& options,
                        std::vector<CommCandidate>& candidates);

}  // namespace gpt
