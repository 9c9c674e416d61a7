#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "data/dataset.hpp"
#include "device/device.hpp"
#include "train/checkpoint.hpp"
#include "train/options.hpp"
#include "train/plan.hpp"
#include "train/run_folder.hpp"
#include "train/start_point.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// Where training stands.
struct TrainState {
  int64_t step = 0;            ///< optimizer steps done
  int64_t cursor = 0;          ///< windows consumed per lane
  std::vector<Range> skipped;  ///< cursor ranges passed over
};

/// Everything that a run needs, made before it starts.
struct TrainContext {
  const World& world;
  Device& device;
  Comm& comm;
  Dataset& dataset;
  const TrainOptions& options;
  const std::string& configuration;  ///< the options as an ini text, for checkpoints
  const StartPoint& start;
};

/// One rank's part of a training run.
class Trainer {
public:
  /// Allocates, and loads the checkpoint of `context.start` or makes initial weights.
  explicit Trainer(const TrainContext& context);
  ~Trainer();

  const TrainState& state() const;
  const Plan& plan() const;

  /// Trains to the end: writes journal, progress and checkpoints into `run_folder`. Collective.
  /// @param lease  on the root the hold on that folder, confirmed before each save; null on the other ranks
  /// @throws SharedError(bad_numbers) when loss or gradients are not finite
  void run(const std::string& run_folder, const RunFolder* lease);

  /// Text that the model continues from the beginning of the validation part (without evaluation: of the
  /// training part). Not collective.
  std::string sample(int64_t tokens);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
