#pragma once

#include "comm/world.hpp"
#include "train/console.hpp"
#include "train/node_saver.hpp"
#include "train/options.hpp"
#include "train/run_folder.hpp"
#include "train/start_point.hpp"

#include <cstdint>
#include <optional>

namespace gpt {

/// A start of a run, whose folder is held: what earlier ones left in the memory of nodes goes, but for the
/// checkpoint that this one goes on from, and the run's record knows this one. Returns where it keeps its
/// own; nothing without --memory-every. Collective.
/// @param held  null but on the root @param step  done when it starts
/// @throws SharedError if the record cannot be written
std::optional<NodeCheckpointPlace> begin_node_checkpoints(Console& console, const World& world,
                                                          const RunFolder* held, const TrainOptions& options,
                                                          const StartPoint& start, int64_t step);

/// Deletes what a run has in the memory of this job's nodes, and its record, once the disk has all of it.
/// With the run folder held. What cannot be deleted is said. Collective.
void end_node_checkpoints(Console& console, const World& world, const TrainOptions& options);

}  // namespace gpt
