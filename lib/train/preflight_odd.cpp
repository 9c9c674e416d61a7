#include "train/preflight_odd.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <map>

namespace gpt {
namespace {

/// Empty if all are empty.
std::string usual_value(const std::vector<std::string>& values) {
  std::map<std::string, int64_t> ranks;
  for (const std::string& value : values)
    if (!value.empty()) ++ranks[value];
  std::string usual;
  for (const std::string& value : values)  // in the order of ranks, so that the first of equals stays
    if (!value.empty() && (usual.empty() || ranks[value] > ranks[usual])) usual = value;
  return usual;
}

}  // namespace

Findings find_odd(const std::string& check, const std::string& what, const std::vector<std::string>& values,
                  const std::vector<int>& node_of_rank) {
  expects(values.size() == node_of_rank.size());
  const std::string usual = usual_value(values);
  Findings findings;
  for (size_t rank = 0; rank < values.size(); ++rank)
    if (!values[rank].empty() && values[rank] != usual)
      findings.push_back({.node = node_of_rank[rank],
                          .check = check,
                          .reason = fmt::format("{} of rank {} is {}, on most ranks it is {}", what, rank,
                                                values[rank], usual)});
  return findings;
}

}  // namespace gpt
