#pragma once

#include "comm/comm.hpp"
#include "train/options.hpp"

namespace gpt {

/// What --reduction, --inter, --wire and --zero ask of the communicator.
/// @throws Error(usage) for names that say nothing, auto among them: somebody has to choose before
CommPlan comm_plan(const TrainOptions& options);

}  // namespace gpt
