#pragma once

#include "comm/watchdog.hpp"
#include "data/dataset.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <string>

namespace gpt {

/// What a model makes of its training data.
struct TrainingSample {
  std::string prompt;        ///< the beginning of a training shard, quoted
  std::string continuation;  ///< by the model
};

/// Draws `tokens` tokens. Not collective.
/// @param shard  of the training split, which is open here
TrainingSample draw_training_sample(const TrainOptions& options, const Dataset& dataset, int64_t shard,
                                    const FlatParameters& weights, Device& device, Watchdog& watchdog,
                                    int64_t tokens);

}  // namespace gpt
