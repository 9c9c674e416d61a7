#pragma once

#include "comm/world.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gpt {

/// Named values that must be the same on all ranks.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Collective. @throws SharedError(usage) naming each field that differs, its values, and the ranks that have
/// them, on which hosts
void compare_ranks(const World& world, const Facts& facts);

using RanksByValue = std::map<std::string, std::vector<int>>;

/// "0.001 on ranks 0, 2 (n0, n1); 0.002 on rank 1 (n0)"
std::string describe(const RanksByValue& values, const std::vector<std::string>& host_of_rank);

}  // namespace gpt
