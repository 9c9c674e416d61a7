#include "train/comm_plan.hpp"

#include "base/error.hpp"

namespace gpt {

CommPlan comm_plan(const TrainOptions& options) {
  const Wire wire = wire_named(options.wire);
  return {.reduction = reduction_named(options.reduction),
          .inter = inter_named(options.inter),
          .wire_node = wire.node,
          .wire_peers = wire.peers,
          .sharding = options.zero == "node" ? Sharding::node : Sharding::world};
}

void validate_sums_between(const TrainOptions& options, int nodes) {
  const bool between = options.reduction == "auto" || options.reduction == "hierarchical";
  if (between && options.inter != "auto") validate_fits(inter_named(options.inter), nodes);
}

bool all_goes_direct(const TrainOptions& options) {
  return wire_named(options.wire).peers == DType::bf16 && options.zero != "1";
}

std::optional<std::string> idle_inter_notice(const TrainOptions& options, int nodes, bool heeds_inter) {
  if (options.inter == "auto") return {};
  std::string reason;
  if (nodes == 1)
    reason = "there is one node";
  else if (!heeds_inter)
    reason = "NCCL chooses how nodes sum";
  else if (options.reduction == "flat")
    reason = "--reduction flat leaves the way to the MPI library";
  else if (options.reduction == "tree")
    reason = "sums along the tree go direct";
  else if (all_goes_direct(options) && options.inter != "direct")
    reason = "gradients that travel as bf16 between nodes go direct";
  if (reason.empty()) return {};
  return fmt::format("notice: --inter {} has no effect here: {}", options.inter, reason);
}

}  // namespace gpt
