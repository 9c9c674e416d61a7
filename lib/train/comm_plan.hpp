#pragma once

#include "comm/comm.hpp"
#include "train/options.hpp"

namespace gpt {

/// What --reduction, --inter, --wire and --zero ask of the communicator. @throws Error(usage) for a value
/// that is no way of summing, as `auto` until it is settled
CommPlan comm_plan(const TrainOptions& options);

}  // namespace gpt
