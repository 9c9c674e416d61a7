#pragma once

#include "comm/world.hpp"
#include "train/checkpoint.hpp"
#include "train/device_state.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// Where this start of a run keeps checkpoints in the memory of this rank's node.
struct NodeCheckpointPlace {
  std::string base;    ///< of the run (node_checkpoint_folder)
  std::string folder;  ///< of this start, in it
  std::string kept;    ///< what an earlier start left on this node and this one went on from; empty: nothing
};

/// How a save into the memory of this node ended.
struct NodeSaveEnd {
  std::string failure;   ///< why this node has no such checkpoint; empty: it has
  double seconds = 0.0;  ///< until it was there, from when the state had been copied
};

/// Keeps checkpoints of the whole state in the memory of one node, written by its ranks: the newest two, so
/// that one is whole whenever the node's processes are killed. For the thread that saves (Saver).
class NodeSaver {
public:
  /// @param node  the node's ranks, for that thread (World::duplicate_node) @param parts  what each of these
  /// ranks writes
  NodeSaver(std::unique_ptr<World> node, NodeCheckpointPlace place, Layout layout, SavedParts parts);

  /// As those of SavedParts.
  void take(const std::vector<DeviceState>& states, Queue& compute) { parts_.take(states, compute); }
  void protect(Queue& compute) { parts_.protect(compute); }

  /// What was taken last, as the checkpoint of this header. Collective over the node.
  /// @throws Error as save_checkpoint, when the job must end
  NodeSaveEnd save(const CheckpointHeader& header);

  /// Signs of life of the thread that is in save().
  const Pulse& pulse() const { return node_->watchdog().pulse(); }

private:
  void make_room();

  std::unique_ptr<World> node_;
  NodeCheckpointPlace place_;
  Layout layout_;
  SavedParts parts_;
  std::vector<std::string> files_;  // the oldest first; known to the node's first rank
};

}  // namespace gpt
