#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "data/dataset.hpp"
#include "device/device.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <string>

namespace gpt {

struct EvaluationResult {
  double loss = 0.0;  ///< nats per token
  int64_t windows = 0;
};

/// Loss of a checkpoint over the dataset's validation windows. Collective; writes nothing.
/// @param last_update  of the checkpoint
EvaluationResult evaluate_checkpoint(const World& world, Device& device, Comm& comm, Dataset& dataset,
                                     const TrainOptions& options, const std::string& file,
                                     int64_t last_update);

}  // namespace gpt
