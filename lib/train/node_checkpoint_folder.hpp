#pragma once

#include "comm/world.hpp"
#include "train/checkpoint.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Which of the nodes on its host a node is: nodes that are pretended, or ranks that cannot share memory, may
/// see the same memory file system. What earlier layouts left beyond the last node is the last one's.
struct NodeSlot {
  int64_t index = 0;
  bool last = true;  ///< of its host

  bool covers(int64_t slot) const { return slot == index || (last && slot > index); }
  bool operator==(const NodeSlot&) const = default;
};

/// This rank's node. Collective.
NodeSlot node_slot(const World& world);

/// Where a run keeps checkpoints in a memory file system: "MEMORY/gpt_mpi-USER-HASH", by the run folder's
/// place. It belongs to this user alone.
std::string node_checkpoint_folder(const std::string& memory, const std::string& run_folder);

/// Where one start of the run keeps those of one node: "BASE/START-SLOT".
std::string node_start_folder(const std::string& base, uint64_t start, int64_t slot);

/// Whether there is a folder of that name, of this user and closed to all others.
/// @throws Error(usage) if something else has the name
bool is_own_folder(const std::string& path);

/// @throws Error as is_own_folder; Error(saving_failed) if it cannot be made
void make_own_folder(const std::string& path);

/// A checkpoint in memory, and the start of the run that wrote it.
struct NodeCheckpoint {
  CheckpointFile file;
  uint64_t start = 0;
};

/// What `base` holds for a node, by commit records (list_checkpoints), in no order.
struct NodeCheckpointList {
  std::vector<NodeCheckpoint> valid;
  std::vector<std::string> passed_over;  ///< one sentence each
};
/// @throws Error(usage) as is_own_folder
NodeCheckpointList list_node_checkpoints(const std::string& base, const NodeSlot& slot);

/// Bytes that all files in `base` take; 0 where it is not this user's.
int64_t node_checkpoint_bytes(const std::string& base);

/// Deletes what `base` holds for a node, and `base` itself when nothing is left in it. Nothing happens where
/// it is not there. @param kept  a file that stays; empty: none
/// @throws Error(usage) as is_own_folder; Error(failed) naming what cannot be deleted
void remove_node_checkpoints(const std::string& base, const NodeSlot& slot, const std::string& kept);

}  // namespace gpt
