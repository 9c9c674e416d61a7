#pragma once

#include "comm/comm.hpp"
#include "train/options.hpp"

namespace gpt {

/// What --reduction, --inter, --wire and --zero ask of the communicator; valid options only.
CommPlan comm_plan(const TrainOptions& options);

}  // namespace gpt
