#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/console.hpp"
#include "train/preparation.hpp"
#include "train/run_folder.hpp"
#include "train/training_sample.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace gpt {

/// One rank's part of a training run.
class Trainer {
public:
  /// Allocates, and loads the checkpoint of `run.start` or makes initial weights. Keeps references to all of
  /// these. Collective.
  /// @param comm  with --reduction tree over the leaves of the run's plan
  Trainer(const World& world, Device& device, Comm& comm, PreparedRun& run, Console& console);
  ~Trainer();

  /// Trains to the end: writes journal, progress and checkpoints into `run_folder`. Collective.
  /// @param held  on the root the hold on that folder, confirmed before each save; null on the other ranks
  /// @throws SharedError(bad_numbers) when loss or gradients are not finite
  void run(const std::string& run_folder, const RunFolder* held);

  /// From this rank's training data on. Not collective.
  TrainingSample sample(int64_t tokens);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
