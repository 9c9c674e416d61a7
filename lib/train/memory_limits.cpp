#include "train/memory_limits.hpp"

#include "train/proc_files.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>

namespace gpt {
namespace {

/// Version 1 writes "no limit" as the largest multiple of the page size.
constexpr int64_t no_limit = std::numeric_limits<int64_t>::max() / 2;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The number in a file that holds nothing else; nothing for "max", and where there is no such file.
std::optional<int64_t> number_in(const std::string& path) {
  std::istringstream text(first_line(path));
  int64_t value = 0;
  if (text >> value) return value;
  return std::nullopt;
}

/// The value behind `name` in a file of lines "name value".
int64_t entry_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  for (int64_t value = 0; file >> key >> value;)
    if (key == name) return value;
  return 0;
}

/// Where control groups of one version that limit memory are seen.
struct Hierarchy {
  bool unified = false;  ///< version 2
  std::string mounted;   ///< where
  std::string top;       ///< the group that stands there, as /proc/self/cgroup calls it
};

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

/// From lines "id parent device top mounted options … - type source options" (proc_pid_mountinfo(5)).
std::vector<Hierarchy> hierarchies(const std::string& mountinfo) {
  std::vector<Hierarchy> found;
  std::ifstream file(mountinfo);
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line), after(line.substr(dash + 3));
    std::string skipped, top, mounted, type, source, options;
    before >> skipped >> skipped >> skipped >> top >> mounted;
    after >> type >> source >> options;
    const bool unified = type == "cgroup2";
    if (unified || (type == "cgroup" && has_word(options, "memory")))
      found.push_back({unified, mounted, top});
  }
  return found;
}

/// This process's group in a hierarchy, from lines "number:controllers:group" (cgroups(7)).
std::optional<std::string> own_group(const std::string& cgroups, bool unified) {
  std::ifstream file(cgroups);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? controllers.empty() : has_word(controllers, "memory")) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The group's path below the place where the hierarchy is mounted. A container may see nothing but its own
/// group there, and know itself by a name that leads out of it.
std::string below_mount(const std::string& group, const std::string& top) {
  if (!group.starts_with("/") || group.starts_with("/..")) return "";
  if (top == "/") return group == "/" ? "" : group;
  if (group == top || !group.starts_with(top + "/")) return "";
  return group.substr(top.size());
}

/// The limit of one group, if it has one.
std::optional<MemoryPool> pool_of_group(const std::string& folder, const std::string& shown, bool unified) {
  struct stat place {};
  if (stat(folder.c_str(), &place) != 0) return std::nullopt;
  MemoryPool pool{.key = fmt::format("cgroup {}:{}", place.st_dev, place.st_ino),
                  .name = "",
                  .total = no_limit,
                  .available = 0};
  // Above memory.high processes are slowed down until they stand.
  const std::vector<std::string> files = unified ? std::vector<std::string>{"memory.max", "memory.high"}
                                                 : std::vector<std::string>{"memory.limit_in_bytes"};
  for (const std::string& name : files)
    if (const auto limit = number_in(folder + "/" + name); limit && *limit < pool.total) {
      pool.total = *limit;
      pool.name = fmt::format("control group limit {}/{}", shown, name);
    }
  if (pool.name.empty()) return std::nullopt;
  const std::string statistics = folder + "/memory.stat", prefix = unified ? "" : "total_";
  const int64_t used =
      number_in(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
  const int64_t cache =
      entry_in(statistics, prefix + "inactive_file") + entry_in(statistics, prefix + "active_file");
  pool.available = std::max<int64_t>(0, pool.total - std::max<int64_t>(0, used - cache));
  return pool;
}

}  // namespace

std::vector<MemoryPool> system_pools(const std::string& root, const std::string& host, int64_t given_back) {
  const std::string base = root == "/" ? "" : root;
  std::vector<MemoryPool> pools;
  const std::string meminfo = base + "/proc/meminfo";
  if (const int64_t available = bytes_in(meminfo, "MemAvailable:"); available > 0)
    pools.push_back({.key = "memory",
                     .name = "MemAvailable of /proc/meminfo",
                     .total = bytes_in(meminfo, "MemTotal:"),
                     .available = available + given_back});
  for (const Hierarchy& hierarchy : hierarchies(base + "/proc/self/mountinfo")) {
    const auto group = own_group(base + "/proc/self/cgroup", hierarchy.unified);
    if (!group) continue;
    for (std::string below = below_mount(*group, hierarchy.top);; below.resize(below.rfind('/'))) {
      const std::string shown = hierarchy.mounted + below;
      if (auto pool = pool_of_group(base + shown, shown, hierarchy.unified)) pools.push_back(*pool);
      if (below.empty()) break;
    }
  }
  // Containers of one machine know it by other names, and ranks in them draw from the same memory.
  const std::string boot = first_line(base + "/proc/sys/kernel/random/boot_id");
  for (MemoryPool& pool : pools) {
    pool.key = (boot.empty() ? host : boot) + " " + pool.key;
    pool.name += fmt::format(" on host {}", host);
  }
  return pools;
}

std::vector<MemoryPool> process_pools(const std::string& key) {
  // Threads' stacks and heaps, oneDNN's code and packed operands: measured, 19 to 49 MB on two threads.
  constexpr int64_t libraries = int64_t{64} << 20;
  struct Limit {
    int resource;
    const char* name;
    const char* used;  // in /proc/self/status
  };
  std::vector<MemoryPool> pools;
  for (const Limit& limit : {Limit{RLIMIT_AS, "RLIMIT_AS (ulimit -v)", "VmSize:"},
                             Limit{RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)", "VmData:"}}) {
    rlimit value{};
    if (getrlimit(static_cast<__rlimit_resource>(limit.resource), &value) != 0 ||
        value.rlim_cur >= static_cast<rlim_t>(no_limit))
      continue;
    const auto total = static_cast<int64_t>(value.rlim_cur);
    pools.push_back(
        {.key = fmt::format("{} {}", key, limit.name),
         .name = fmt::format("limit of a process {}", limit.name),
         .total = total,
         .available = std::max<int64_t>(0, total - bytes_in("/proc/self/status", limit.used) - libraries),
         .is_shared = false});
  }
  return pools;
}

}  // namespace gpt
