#include "train/comm_plan.hpp"

#include "base/error.hpp"

namespace gpt {
namespace {

Reduction reduction_of(const std::string& name) {
  if (name == "flat") return Reduction::flat;
  if (name == "tree") return Reduction::tree;
  validate(name == "hierarchical", "--reduction {} is no way of summing: use flat, hierarchical or tree",
           name);
  return Reduction::hierarchical;
}

Inter inter_of(const std::string& name) {
  if (name == "mpi") return Inter::library;
  if (name == "halving") return Inter::halving;
  validate(name == "ring", "--inter {} is no exchange between nodes: use ring, halving or mpi", name);
  return Inter::ring;
}

DType wire_of(const std::string& name) { return name == "bf16" ? DType::bf16 : DType::f32; }

}  // namespace

CommPlan comm_plan(const TrainOptions& options) {
  const std::string& wire = options.wire;
  const size_t comma = wire.find(',');
  const std::string between = comma == std::string::npos ? wire : wire.substr(comma + 1);
  return {.reduction = reduction_of(options.reduction),
          .inter = inter_of(options.inter),
          .wire_node = wire_of(wire.substr(0, comma)),
          .wire_peers = wire_of(between),
          .sharding = options.zero == "node" ? Sharding::node : Sharding::world};
}

}  // namespace gpt
