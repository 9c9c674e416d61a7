#pragma once

#include "comm/world.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gpt {

/// Named values that must be the same on all ranks.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Collective. @throws SharedError(usage) naming each field that differs, its values, and the ranks that have
/// them, on which hosts
void compare_ranks(const World& world, const Facts& facts);

/// Settings of MPI, of the network and of the mathematical libraries in the environment that are not the same
/// on all ranks, by the same words on all of them: launchers often hand on only a part of it. Collective.
std::vector<std::string> environment_differences(const World& world);

/// What this process runs: a hash of the executable, versions of the libraries that it loaded.
Facts build_facts();

}  // namespace gpt
