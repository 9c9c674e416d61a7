#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// Why the preflight check refuses a node, or the job as a whole.
struct Finding {
  std::optional<int> node;  ///< nothing: no node is to blame
  std::string check;        ///< clock, memory, disk, …: the same word whatever the reason
  std::string reason;       ///< a sentence for people

  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

/// What one check finds on every node is no node's fault: it becomes a finding of the job, with the reason of
/// the first node. Of several that a check finds on one node the first stays.
Findings settle(const Findings& findings, int nodes);

}  // namespace gpt
