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

}  // namespace gpt
