#include "train/node_checkpoint_room.hpp"

#include "base/error.hpp"
#include "train/checkpoint_format.hpp"
#include "train/memory_check.hpp"
#include "train/node_checkpoint_folder.hpp"

#include <cerrno>
#include <optional>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t checkpoints_kept = 2;  // by NodeSaver, one of them being written

/// The file system that `folder` lies in; nothing where it has no limit of its own.
std::optional<MemoryPool> pool_of(const std::string& folder, const std::string& host, int64_t given_back) {
  struct statvfs space {};
  struct stat place {};
  const bool seen = statvfs(folder.c_str(), &space) == 0 && stat(folder.c_str(), &place) == 0;
  const int failure = seen ? 0 : errno;
  validate(seen, "--memory-folder {}: cannot examine it: {}", folder,
           std::generic_category().message(failure));
  if (space.f_blocks == 0) return std::nullopt;
  const auto block = static_cast<int64_t>(space.f_frsize);
  return MemoryPool{.key = fmt::format("{} {}", host, place.st_dev),
                    .name = fmt::format("the memory file system of {} on host {}", folder, host),
                    .total = static_cast<int64_t>(space.f_blocks) * block,
                    .available = static_cast<int64_t>(space.f_bavail) * block + given_back};
}

/// What the ranks of all nodes need together. Collective.
void refuse_unless_it_fits(Console& console, const World& world, const TrainOptions& options,
                           const MemoryDemand& mine) {
  std::vector<MemoryDemand> demands;
  for (const std::string& text : world.gather(to_text(mine))) demands.push_back(demand_from_text(text));
  const MemoryUse use = tightest(demands);
  if (use.ranks.empty() || use.fits()) return;
  const std::string message = fmt::format(
      "not enough room for checkpoints in memory: {}. A node keeps two of them (--memory-every). What helps: "
      "enlarge it (mount -o remount,size=SIZE), another --memory-folder, fewer nodes on one machine, or "
      "--memory-every 0. If this is wrong, --memory-check warn starts all the same",
      describe(use));
  if (options.memory_check != "warn") throw SharedError(message, ExitCode::usage);
  console.say("warning: " + message);
}

}  // namespace

int64_t node_checkpoints_size(const Layout& layout, int64_t states) {
  constexpr int64_t page = 4096, texts = int64_t{2} << 20;  // tokenizer, configuration, attributes
  int64_t state = layout.size() * static_cast<int64_t>(sizeof(float));
  if (state >= checkpoint_block) state = round_up(state, checkpoint_block);
  const int64_t structure = page * (std::ssize(layout.all()) + 2 * states) + texts;
  return checkpoints_kept * (states * state + structure + CommitRecord::bytes);
}

std::string agree_on_node_folder(const World& world, const TrainOptions& options) {
  return world.broadcast(world.is_root() ? node_checkpoint_folder(options.memory_folder, options.out)
                                         : std::string());
}

void validate_memory_folder(const std::string& folder) {
  constexpr int64_t tmpfs = 0x01021994, ramfs = 0x858458f6;  // statfs(2)
  struct statfs found {};
  const int failure = statfs(folder.c_str(), &found) == 0 ? 0 : errno;
  validate(failure == 0, "--memory-folder {}: {}: name a folder that every node has", folder,
           std::generic_category().message(failure));
  const auto type = static_cast<int64_t>(found.f_type);
  validate(
      type == tmpfs || type == ramfs,
      "--memory-folder {} is on no memory file system (tmpfs): what is kept there is no node's own, or no "
      "faster than the disk; use /dev/shm",
      folder);
  const int denied = access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
  validate(denied == 0, "--memory-folder {}: {}", folder, std::generic_category().message(denied));
}

int64_t left_in_memory(const World& world, const TrainOptions& options) {
  return options.memory_every == 0 ? 0 : node_checkpoint_bytes(agree_on_node_folder(world, options));
}

void check_node_checkpoints(Console& console, const World& world, const TrainOptions& options,
                            const MemoryEstimate& mine) {
  if (options.memory_every == 0) return;
  const std::string base = agree_on_node_folder(world, options);
  MemoryDemand demand{.bytes = mine.node_checkpoints, .pools = {}};
  world.everywhere([&] {
    validate_memory_folder(options.memory_folder);
    is_own_folder(base);
    if (const auto pool = pool_of(options.memory_folder, world.host(), node_checkpoint_bytes(base)))
      demand.pools.push_back(*pool);
  });
  refuse_unless_it_fits(console, world, options, demand);
}

}  // namespace gpt
