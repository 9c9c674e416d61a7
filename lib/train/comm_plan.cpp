#include "train/comm_plan.hpp"

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

}  // namespace gpt
