#pragma once

#include "comm/world.hpp"
#include "model/layout.hpp"
#include "train/console.hpp"
#include "train/memory.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <string>

namespace gpt {

/// Bytes of the checkpoints that a node keeps in memory at a time, about. @param states  flat tensors in each
int64_t node_checkpoints_size(const Layout& layout, int64_t states);

/// The run's folder in the memory of nodes, by the root's view of the run folder. Collective.
std::string agree_on_node_folder(const World& world, const TrainOptions& options);

/// Whether `folder` lies in a memory file system in which this process may write.
/// @throws Error(usage) saying what is in the way
void validate_memory_folder(const std::string& folder);

/// Bytes that checkpoints of earlier starts of this run hold of the memory of this node, and that a start
/// gives back before it keeps any; 0 without --memory-every. Collective.
int64_t left_in_memory(const World& world, const TrainOptions& options);

/// Before anything is written: that the memory file system of every node has room for what --memory-every
/// keeps there; of the host's memory check_memory says that. What earlier starts left there counts as room.
/// Collective.
/// @param mine  of this rank
/// @throws SharedError(usage) where there is none, unless --memory-check warn makes it a warning
void check_node_checkpoints(Console& console, const World& world, const TrainOptions& options,
                            const MemoryEstimate& mine);

}  // namespace gpt
