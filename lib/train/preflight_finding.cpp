#include "train/preflight_finding.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace gpt {

Findings settle(const Findings& findings, int nodes) {
  Findings settled;
  for (const Finding& finding : findings) {
    const bool known = std::ranges::any_of(settled, [&](const Finding& other) {
      return other.node == finding.node && other.check == finding.check;
    });
    if (!known) settled.push_back(finding);
  }
  std::map<std::string, int> nodes_by_check;
  for (const Finding& finding : settled)
    if (finding.node) ++nodes_by_check[finding.check];

  Findings result;
  for (Finding& finding : settled) {
    if (finding.node && nodes_by_check[finding.check] == nodes) {
      const bool said = std::ranges::any_of(
          result, [&](const Finding& other) { return !other.node && other.check == finding.check; });
      if (said) continue;
      if (nodes > 1) finding.reason = "on every node, the first says: " + finding.reason;
      finding.node.reset();
    }
    result.push_back(std::move(finding));
  }
  return result;
}

}  // namespace gpt
