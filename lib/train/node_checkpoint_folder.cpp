#include "train/node_checkpoint_folder.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gpt {
namespace {

namespace fs = std::filesystem;

struct StartFolder {
  std::string path;
  uint64_t start = 0;
  int64_t slot = 0;
};

template <class Number>
bool parse(std::string_view text, int base, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

/// Of a name that node_start_folder gives.
std::optional<StartFolder> start_folder_at(const fs::path& path) {
  constexpr size_t digits = 16;
  const std::string name = path.filename().string();
  StartFolder folder{.path = path.string()};
  if (name.size() < digits + 2 || name[digits] != '-') return std::nullopt;
  const std::string_view text = name;
  if (!parse(text.substr(0, digits), 16, folder.start) || !parse(text.substr(digits + 1), 10, folder.slot))
    return std::nullopt;
  return folder;
}

/// @throws Error(failed)
std::vector<fs::path> entries_of(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) paths.push_back(entry->path());
  validate(!error, ExitCode::failed, "cannot list {}: {}", folder, error.message());
  return paths;
}

std::vector<StartFolder> start_folders(const std::string& base) {
  std::vector<StartFolder> found;
  if (!is_own_folder(base)) return found;
  for (const fs::path& path : entries_of(base))
    if (auto folder = start_folder_at(path)) found.push_back(std::move(*folder));
  return found;
}

void delete_entry(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  validate(!error, ExitCode::failed, "cannot delete {}: {}", path.string(), error.message());
}

}  // namespace

NodeSlot node_slot(const World& world) {
  std::set<int> nodes;  // of this host
  for (const std::string& text : world.gather(fmt::format("{} {}", world.node_index(), world.host()))) {
    const size_t space = text.find(' ');
    if (text.substr(space + 1) == world.host()) nodes.insert(std::stoi(text.substr(0, space)));
  }
  const auto mine = nodes.find(world.node_index());
  return {.index = std::distance(nodes.begin(), mine), .last = std::next(mine) == nodes.end()};
}

std::string node_checkpoint_folder(const std::string& memory, const std::string& run_folder) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(run_folder), error);
  if (error) place = fs::absolute(run_folder).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();  // "runs/demo/" is "runs/demo"
  return fmt::format("{}/gpt_mpi-{}-{}", memory, geteuid(), to_hex(hash_bytes(place.string())));
}

std::string node_start_folder(const std::string& base, uint64_t start, int64_t slot) {
  return fmt::format("{}/{}-{}", base, to_hex(start), slot);
}

bool is_own_folder(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    const int failure = errno;
    validate(failure == ENOENT, "cannot examine {}: {}", path, std::generic_category().message(failure));
    return false;
  }
  // What others can write there they could have written.
  validate(
      S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077) == 0,
      "{} is not a folder of this user alone, and no checkpoint is kept in it or read from it: remove it, "
      "or name another place with --memory-folder",
      path);
  return true;
}

void make_own_folder(const std::string& path) {
  const int failure = mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
  validate(failure == 0 || failure == EEXIST, ExitCode::saving_failed, "cannot make the folder {}: {}", path,
           std::generic_category().message(failure));
  is_own_folder(path);
}

NodeCheckpointList list_node_checkpoints(const std::string& base, const NodeSlot& slot) {
  NodeCheckpointList list;
  for (const StartFolder& folder : start_folders(base)) {
    if (!slot.covers(folder.slot)) continue;
    const CheckpointList found = list_checkpoints(folder.path);
    for (const CheckpointFile& file : found.valid) list.valid.push_back({file, folder.start});
    list.passed_over.insert(list.passed_over.end(), found.passed_over.begin(), found.passed_over.end());
  }
  return list;
}

int64_t node_checkpoint_bytes(const std::string& base) {
  int64_t bytes = 0;
  try {
    for (const StartFolder& folder : start_folders(base))
      for (const fs::path& path : entries_of(folder.path)) {
        struct stat status {};
        if (lstat(path.c_str(), &status) == 0) bytes += int64_t{status.st_blocks} * 512;
      }
  } catch (const Error&) {
    return 0;  // it is refused, and said, where it is used
  }
  return bytes;
}

void remove_node_checkpoints(const std::string& base, const NodeSlot& slot, const std::string& kept) {
  if (!is_own_folder(base)) return;
  for (const StartFolder& folder : start_folders(base)) {
    if (!slot.covers(folder.slot)) continue;
    for (const fs::path& path : entries_of(folder.path))
      if (path.string() != kept) delete_entry(path);
    rmdir(folder.path.c_str());  // not where something is kept
  }
  rmdir(base.c_str());  // not where other nodes of the host have something in it
}

}  // namespace gpt
