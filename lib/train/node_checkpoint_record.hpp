#pragma once

#include "train/node_checkpoint_folder.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// `memory.json` in a run's folder: which checkpoints in the memory of nodes belong to the run as it is now.
/// A node that was lost and comes back may hold some that the run has left behind.
struct NodeCheckpointRecord {
  static constexpr const char* name = "memory.json";

  /// One start of the run.
  struct Start {
    uint64_t id = 0;
    int64_t step = 0;  ///< it went on from

    bool operator==(const Start&) const = default;
  };

  std::string folder;  ///< the run's on every node (node_checkpoint_folder)
  uint64_t run_id = 0;
  std::vector<Start> starts;  ///< the oldest first

  /// Of this run and of one of these starts, from before the step at which any later one went on.
  bool counts(const NodeCheckpoint& checkpoint) const;

  /// One more start; the first one where the run is another. Of very many the oldest are forgotten.
  void add(const std::string& its_folder, uint64_t its_run_id, const Start& start);

  bool operator==(const NodeCheckpointRecord&) const = default;
};

std::string to_text(const NodeCheckpointRecord& record);
/// @throws Error(damaged) if it is none
NodeCheckpointRecord node_record_from_text(const std::string& text);

}  // namespace gpt
