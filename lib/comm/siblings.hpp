#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// This process's rank as its launcher tells it, known before MPI starts; 0 if it does not.
int launched_rank();

/// Whether a launcher started this process and told it a rank.
bool is_launched();

/// A process of this job that the same launcher started on this host.
struct Sibling {
  int64_t process = 0;
  int rank = 0;
  bool stopped = false;
};

/// All but this one, read from /proc: what can be known before ranks can talk to each other.
std::vector<Sibling> find_siblings();

/// "process 4711 (rank 1) is stopped"; empty if none is.
std::string describe_stopped(const std::vector<Sibling>& siblings);

}  // namespace gpt
