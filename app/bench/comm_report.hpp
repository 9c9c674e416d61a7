#pragma once

#include "bench/comm_measure.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpt {

/// Where it was measured. Collective over the world.
struct Machine {
  int ranks = 1;
  std::vector<std::string> hosts;   ///< by rank
  std::vector<int> ranks_per_node;  ///< by node
  bool has_nodes_as_subtrees;       ///< else the tree goes rank by rank
};
Machine describe_machine(const World& world);

/// Columns as users of nccl-tests know them: docs/benchmarks.md.
void print_comm_table(const Machine& machine, const CommBench& bench, const std::vector<CommResult>& results);

/// docs/benchmarks.md lists the keys.
nlohmann::json comm_json(const Machine& machine, const CommBench& bench,
                         const std::vector<CommResult>& results);

}  // namespace gpt
