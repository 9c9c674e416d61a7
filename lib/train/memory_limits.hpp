#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Memory that processes draw from, together where they have the same key.
struct MemoryPool {
  std::string key;
  std::string name;   ///< for people: "MemAvailable of /proc/meminfo on host n1"
  int64_t total = 0;  ///< bytes that all together may have
  int64_t available =
      0;  ///< bytes of these that nobody has, or that the system would give away (file caches)
  bool is_shared = true;  ///< others than this job's ranks may have some of it
};

/// What the system lets this process have: the machine's memory (MemAvailable of /proc/meminfo) and that of
/// every control group which it is in (version 1 and 2, the group's parents included). What does not say is
/// left out.
/// @param root  of the file system: "/", or for tests a folder with such files
/// @param host  the machine's name, for people
/// @param given_back  bytes of the machine's memory that this job gives back before it needs any, of groups
/// that are gone
std::vector<MemoryPool> system_pools(const std::string& root, const std::string& host,
                                     int64_t given_back = 0);

/// Limits of this process alone: RLIMIT_AS and RLIMIT_DATA (ulimit -v, -d), as far as they are set. What is
/// available there is less by what libraries will take.
/// @param key  this process's alone
std::vector<MemoryPool> process_pools(const std::string& key);

}  // namespace gpt
