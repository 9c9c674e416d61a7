#pragma once

#include "train/preflight_finding.hpp"

#include <cstdint>
#include <string>

namespace gpt {

/// What a file system has room for.
struct Space {
  std::string folder;    ///< that was looked at
  int64_t free = 0;      ///< bytes that this user may take
  int64_t total = 0;     ///< bytes
  bool writable = true;  ///< by this user, as far as that can be said without writing
  std::string problem;   ///< why nothing is known; empty: it is
};

/// Where ranks of a node share memory: MPI's messages, gradients that are summed.
inline constexpr const char* memory_file_system = "/dev/shm";

/// Bytes that have to be free there on each node: less, and MPI's own messages find no room. Gradients take
/// more if there is more, and memory of each rank's own if not.
constexpr int64_t least_shared_memory = int64_t{16} << 20;

/// Of the file system of `path`, or of the nearest folder above it that exists. Writes nothing.
Space look_at_space(const std::string& path);

/// @param what    for people: what is to be written there
/// @param needed  bytes
Findings judge_space(int node, const std::string& check, const std::string& what, const Space& space,
                     int64_t needed);

}  // namespace gpt
