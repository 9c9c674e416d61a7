#include "train/preflight_space.hpp"

#include "train/memory.hpp"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace {

std::string existing_folder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(path, ignored);
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder.string();
}

}  // namespace

Space look_at_space(const std::string& path) {
  Space space{.folder = existing_folder(path), .problem = {}};
  struct statvfs status {};
  if (statvfs(space.folder.c_str(), &status) != 0) {
    space.problem = std::generic_category().message(errno);
    return space;
  }
  const auto block = static_cast<int64_t>(status.f_frsize);
  space.free = static_cast<int64_t>(status.f_bavail) * block;
  space.total = static_cast<int64_t>(status.f_blocks) * block;
  space.writable = (status.f_flag & ST_RDONLY) == 0 && access(space.folder.c_str(), W_OK | X_OK) == 0;
  return space;
}

Findings judge_space(int node, const std::string& check, const std::string& what, const Space& space,
                     int64_t needed) {
  if (!space.problem.empty())
    return {{.node = node,
             .check = check,
             .reason = fmt::format("cannot look at {}: {}", space.folder, space.problem)}};
  if (!space.writable)
    return {{.node = node, .check = check, .reason = fmt::format("{} cannot be written to", space.folder)}};
  if (space.free >= needed) return {};
  return {
      {.node = node,
       .check = check,
       .reason = fmt::format("{} has {} free of {}, {} takes {}", space.folder, readable_bytes(space.free),
                             readable_bytes(space.total), what, readable_bytes(needed))}};
}

}  // namespace gpt
