#pragma once

#include "comm/comm_plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// What of a plan has an effect on one kind of operation over so many nodes.
struct PlanInEffect {
  CommPlan plan;      ///< `inter` is the one that is used
  std::string inter;  ///< its name; empty where nothing goes between nodes, and but for hierarchical plans
  std::string name;   ///< "flat", "tree", "hierarchical/ring/fp32,bf16", on one node "hierarchical/fp32"
};

/// Sums of what travels as bf16 go `direct` between nodes, whatever --inter. Only sums of f32 have a wire
/// type: those of other types and copies (`sums` false) are named without.
PlanInEffect plan_in_effect(const CommPlan& plan, DType dtype, bool sums, int64_t nodes);

/// "hierarchical/ring/fp32,bf16" on one node: "hierarchical/fp32".
std::string name_on_one_node(const std::string& name);

/// Nodes that the first `ranks` ranks are on.
int64_t nodes_of_first(const std::vector<std::string>& node_of_rank, int ranks);

}  // namespace gpt
