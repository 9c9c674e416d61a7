#include "train/node_checkpoint_load.hpp"

#include "base/fault.hpp"
#include "base/mpi.hpp"
#include "train/checkpoint_format.hpp"

#include <optional>
#include <string>

namespace gpt {
namespace {

/// The ranks of a node in their order. Collective.
std::vector<int> ranks_of_node(const World& world, int node) {
  std::vector<int> ranks;
  const std::vector<std::string> nodes = world.gather(std::to_string(world.node_index()));
  for (size_t rank = 0; rank < nodes.size(); ++rank)
    if (std::stoi(nodes[rank]) == node) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace

void load_from_node(const World& world, int node, const std::string& file, const Layout& layout,
                    const std::vector<DeviceState>& states, Queue& queue) {
  check_file(file_point("load"), ExitCode::damaged, "cannot read " + file);
  const std::vector<int> readers = ranks_of_node(world, node);
  const int64_t blocks = checkpoint_blocks(layout.size());
  std::optional<OpenCheckpoint> checkpoint;
  if (world.node_index() == node) checkpoint.emplace(open_committed(file));
  std::vector<float> memory(static_cast<size_t>(elements_of_blocks({0, 1}, layout.size()).size()));
  const auto tick = [&world] { world.watchdog().tick(); };

  for (const StateReader& state : state_readers(states, queue, tick))
    for (size_t i = 0; i < readers.size(); ++i) {
      const auto spread = [&](Range elements, Tensor block) {
        {
          const Watchdog::Waiting waiting(world.watchdog());
          check_mpi(
              MPI_Bcast(block.raw(), static_cast<int>(block.size()), MPI_FLOAT, readers[i], world.world()));
        }
        state.take(elements, block);
      };
      const Range part = part_of(blocks, std::ssize(readers), static_cast<int64_t>(i));
      if (readers[i] == world.rank()) {
        read_blocks(*checkpoint, {.name = state.name, .take = spread}, layout.size(), part);
        continue;
      }
      for (int64_t block = part.begin; block < part.end; ++block) {
        const Range elements = elements_of_blocks({block, block + 1}, layout.size());
        spread(elements, Tensor(memory.data(), DType::f32, {elements.size()}));
      }
    }
}

}  // namespace gpt
