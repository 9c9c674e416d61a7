#pragma once

#include "train/preflight_finding.hpp"

#include <string>
#include <vector>

namespace gpt {

/// The nodes with a rank that has another value than most ranks have; where two values are on equally many
/// ranks, that of the lower rank is the right one.
/// @param what    for people: what the values are
/// @param values  by rank; ranks with an empty one are left out, since they have told why already
Findings find_odd(const std::string& check, const std::string& what, const std::vector<std::string>& values,
                  const std::vector<int>& node_of_rank);

}  // namespace gpt
