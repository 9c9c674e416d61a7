#pragma once

#include "comm/world.hpp"
#include "data/dataset.hpp"
#include "device/cpu_scratch.hpp"
#include "train/device_choice.hpp"
#include "train/node_saver.hpp"
#include "train/options.hpp"
#include "train/plan.hpp"
#include "train/start_point.hpp"
#include "train/train_state.hpp"
#include "train/training.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// A run as far as it is known before anything is written or allocated: all ranks agree, and every check that
/// can be made has passed.
struct PreparedRun {
  StartPoint start;
  TrainState state;  ///< where it begins
  TrainOptions options;
  std::string
      configuration;  ///< the options as an ini text, for config.ini and checkpoints; --vocab as given
  std::vector<std::string>
      changes;  ///< options that differ from the resumed run's, as "--lr: 0.001, was 0.002"
  std::optional<Dataset> dataset;
  DeviceChoice device;        ///< what this rank computes on
  Plan plan;                  ///< this rank's
  ScratchShape step_shape;    ///< sizes from which working memory follows; from check_memory on, as the next
  int64_t scratch_bytes = 0;  ///< working memory of operations
  int64_t library_bytes = 0;  ///< what libraries hold of the GPU; once they are there
  std::string comm_choice;    ///< of the resumed run (CommChoice as text), then of this one; empty: none yet
  std::optional<NodeCheckpointPlace> node_checkpoints;  ///< of this start, with --memory-every
};

/// Options, agreement of all ranks, node layout, choice of checkpoint, dataset, plan. Collective; once per
/// World.
/// @throws SharedError
PreparedRun prepare_run(World& world, const OptionSource& source);

/// The start that `--resume`, the run folder and the memory of the nodes give now, the same on all ranks.
/// Collective.
StartPoint agree_on_start(const World& world, const TrainOptions& options);

}  // namespace gpt
