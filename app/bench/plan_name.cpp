#include "bench/plan_name.hpp"

#include <set>

namespace gpt {
namespace {

const char* wire_name(DType dtype) { return dtype == DType::bf16 ? "bf16" : "fp32"; }

}  // namespace

PlanInEffect plan_in_effect(const CommPlan& plan, DType dtype, bool sums, int64_t nodes) {
  if (plan.reduction != Reduction::hierarchical)
    return {.plan = plan, .inter = "", .name = plan.reduction == Reduction::flat ? "flat" : "tree"};
  PlanInEffect effect{.plan = plan, .inter = "", .name = "hierarchical"};
  CommPlan& used = effect.plan;
  if (!sums || dtype != DType::f32) used.wire_node = used.wire_peers = DType::f32;
  if (nodes == 1) {
    used.wire_peers = used.wire_node;
  } else {
    if (sums) used.inter = used.inter_of_sums(dtype);
    effect.inter = way_of(used.inter).name;
    effect.name += "/" + effect.inter;
  }
  if (!sums || dtype != DType::f32) return effect;
  effect.name += std::string("/") + wire_name(used.wire_node);
  if (used.wire_peers != used.wire_node) effect.name += std::string(",") + wire_name(used.wire_peers);
  return effect;
}

std::string name_on_one_node(const std::string& name) {
  const size_t inter = name.find('/');
  const size_t wire = inter == std::string::npos ? inter : name.find('/', inter + 1);
  if (wire == std::string::npos) return name;
  return name.substr(0, inter) + name.substr(wire, name.find(',', wire) - wire);
}

int64_t nodes_of_first(const std::vector<std::string>& node_of_rank, int ranks) {
  return std::ssize(std::set<std::string>(node_of_rank.begin(), node_of_rank.begin() + ranks));
}

}  // namespace gpt
