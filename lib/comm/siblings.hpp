#pragma once

#include <string>

namespace gpt {

/// This process's rank as its launcher tells it, known before MPI starts; 0 if it does not.
int launched_rank();

/// Processes of this job that the same launcher started on this host and that are stopped now, as "process
/// 4711 (rank 1) is stopped"; empty if there are none. Reads /proc: for use before ranks can talk to each
/// other.
std::string describe_stopped_siblings();

}  // namespace gpt
