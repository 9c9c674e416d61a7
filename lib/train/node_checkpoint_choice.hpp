#pragma once

#include "comm/world.hpp"
#include "train/node_checkpoint_record.hpp"
#include "train/start_point.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// A checkpoint that a node holds in its memory.
struct NodeOffer {
  int rank = 0;  ///< the first of its node
  int node = 0;
  std::string host;
  CheckpointFile file;
};

/// The index of the offer that a start takes over what the disk gives: of the latest branch, there of the
/// highest step, and newer than what is on the disk. Nothing: there is none. Of two nodes with the same one
/// the first.
std::optional<size_t> newest_offer(const std::vector<NodeOffer>& offers, const StartPoint& disk);

/// The record of a run's folder, read by the root. Nothing: there is none, or it cannot be read; then a
/// sentence is added to `passed_over`. Collective.
std::optional<NodeCheckpointRecord> read_node_record(const World& world, const std::string& run_folder,
                                                     std::vector<std::string>& passed_over);

/// The start that `--resume auto` takes: `disk`, or the newest checkpoint in the memory of a node that is
/// newer and whose every byte was verified, by the ranks of that node. Looks only. Collective.
StartPoint with_node_checkpoints(const World& world, const std::string& run_folder, StartPoint disk);

}  // namespace gpt
