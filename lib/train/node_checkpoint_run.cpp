#include "train/node_checkpoint_run.hpp"

#include "base/error.hpp"
#include "train/node_checkpoint_choice.hpp"
#include "train/node_checkpoint_folder.hpp"
#include "train/node_checkpoint_room.hpp"

#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace gpt {
namespace {

/// Collective. @param kept  on this node
void clean(Console& console, const World& world, const std::set<std::string>& bases,
           const std::string& kept) {
  const NodeSlot slot = node_slot(world);
  std::string failure;
  if (world.node_rank() == 0)
    for (const std::string& base : bases) try {
        remove_node_checkpoints(base, slot, kept);
      } catch (const std::exception& error) {
        failure = error.what();
      }
  const std::vector<std::string> hosts = world.gather(world.host()), failures = world.gather(failure);
  for (size_t rank = 0; rank < failures.size(); ++rank)
    if (!failures[rank].empty())
      console.say(
          fmt::format("warning: checkpoints in memory stay: {} (on {})", failures[rank], hosts[rank]));
}

/// Where this run may have kept some. Collective.
std::set<std::string> folders_of(const World& world, const TrainOptions& options,
                                 const std::optional<NodeCheckpointRecord>& record) {
  std::set<std::string> folders = {agree_on_node_folder(world, options)};
  if (record) folders.insert(record->folder);
  return folders;
}

void forget_record(const World& world, const TrainOptions& options) {
  std::error_code ignored;  // without the files it names nothing
  if (world.is_root()) std::filesystem::remove(options.out + "/" + NodeCheckpointRecord::name, ignored);
}

}  // namespace

std::optional<NodeCheckpointPlace> begin_node_checkpoints(Console& console, const World& world,
                                                          const RunFolder* held, const TrainOptions& options,
                                                          const StartPoint& start, int64_t step) {
  std::vector<std::string> said_before;
  auto record = read_node_record(world, options.out, said_before);
  const bool is_source = start.memory && start.memory->node == world.node_index();
  const std::string kept = is_source ? start.file : std::string();
  clean(console, world, folders_of(world, options, record), kept);
  if (options.memory_every == 0 && !start.memory) {
    forget_record(world, options);
    return std::nullopt;
  }

  const std::string base =
      options.memory_every > 0 || !record ? agree_on_node_folder(world, options) : record->folder;
  uint64_t id = 0;
  world.everywhere([&] {
    if (!world.is_root()) return;
    std::random_device device;
    id = uint64_t{device()} << 32 | device();
    NodeCheckpointRecord next = record.value_or(NodeCheckpointRecord{});
    next.add(base, start.run_id, {.id = id, .step = step});
    held->write_text(NodeCheckpointRecord::name, to_text(next));
  });
  id = std::stoull(world.broadcast(std::to_string(id)));
  if (options.memory_every == 0) return std::nullopt;
  return NodeCheckpointPlace{
      .base = base, .folder = node_start_folder(base, id, node_slot(world).index), .kept = kept};
}

void end_node_checkpoints(Console& console, const World& world, const TrainOptions& options) {
  std::vector<std::string> ignored;
  const auto record = read_node_record(world, options.out, ignored);
  clean(console, world, folders_of(world, options, record), "");
  forget_record(world, options);
}

}  // namespace gpt
