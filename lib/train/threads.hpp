#pragma once

#include "comm/world.hpp"

#include <string>
#include <vector>

namespace gpt {

/// How many threads this rank runs, and what is wrong with that number.
struct ThreadChoice {
  int threads = 1;
  int cores = 1;    ///< in this rank's affinity mask
  int sharers = 1;  ///< ranks of this host whose masks overlap this rank's, itself included
};

/// `asked` 0: the cores that this rank may use, divided by the ranks that share them. Collective.
ThreadChoice choose_threads(const World& world, int asked);

/// One warning for each group of ranks that has more threads than cores. Collective; for the root to print.
std::vector<std::string> thread_warnings(const World& world, const ThreadChoice& choice);

/// The most threads that a rank may be given: 16 for each core of this machine. Some more than cores are a
/// choice, far more are a typing mistake, which would end in what the system cannot start.
int64_t most_threads();

/// Whether `threads`, the value of --threads, is 0 (a rank's share) or a number that this machine's cores can
/// bear. @throws Error(usage) with how many cores there are
void check_threads(int64_t threads);

}  // namespace gpt
