#pragma once

#include "comm/world.hpp"
#include "train/options.hpp"

#include <functional>
#include <string>

namespace gpt {

/// How a program's options become a run's.
struct OptionSource {
  /// What the user gave, over `stored` (an ini text from a checkpoint, or empty), over the defaults.
  /// @throws Error(usage) for options that cannot be read
  std::function<TrainOptions(const std::string& stored)> resolve;
  /// `stored` over the defaults alone.
  std::function<TrainOptions(const std::string& stored)> from_text;
  /// Options as an ini text, a line `name = value` for each.
  std::function<std::string(const TrainOptions&)> to_text;
};

/// A whole run of the training program on this rank: agreement of ranks, choice of checkpoint, lease on the
/// run folder, training or evaluation, final sample. Collective. Returns the exit code.
int run_training(World& world, const OptionSource& source);

}  // namespace gpt
