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

}  // namespace gpt
