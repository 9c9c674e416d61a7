#pragma once

#include "comm/facts.hpp"
#include "comm/world.hpp"

#include <string>
#include <vector>

namespace gpt {

/// Settings of MPI, of the network and of the mathematical libraries in the environment that are not the same
/// on all ranks, by the same words on all of them: launchers often hand on only a part of it. Collective.
std::vector<std::string> environment_differences(const World& world);

/// Each line `name = value` of an ini text as a fact of its own, so that a difference names the option.
Facts option_facts(const std::string& text);

/// What this process runs: a hash of the executable, versions of the libraries that it loaded.
Facts build_facts();

}  // namespace gpt
