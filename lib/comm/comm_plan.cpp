#include "comm/comm_plan.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <climits>

namespace gpt {
namespace {

DType hop_named(std::string_view hop, std::string_view whole) {
  validate(hop == "fp32" || hop == "bf16", "--wire {}: use fp32, bf16, or two of them as in fp32,bf16",
           whole);
  return hop == "bf16" ? DType::bf16 : DType::f32;
}

}  // namespace

Reduction reduction_named(std::string_view name) {
  if (name == "flat") return Reduction::flat;
  if (name == "tree") return Reduction::tree;
  validate(name == "hierarchical", "--reduction {}: use flat, hierarchical, tree", name);
  return Reduction::hierarchical;
}

Wire wire_named(std::string_view name) {
  const size_t comma = name.find(',');
  const std::string_view peers = comma == std::string_view::npos ? name : name.substr(comma + 1);
  return {.node = hop_named(name.substr(0, comma), name), .peers = hop_named(peers, name)};
}

Inter CommPlan::inter_of_sums(DType dtype) const {
  const bool rounded = dtype == DType::bf16 || (dtype == DType::f32 && wire_peers == DType::bf16);
  return rounded ? Inter::direct : inter;
}

CommPlan::Blocks CommPlan::blocks_over(Inter over, int64_t nodes) const {
  constexpr int64_t message = 32 << 10, in_memory = 1 << 20;
  Blocks blocks{.bytes = in_memory, .under_way = window};
  if (nodes > 1) {
    const InterWay& way = way_of(over);
    blocks = {.bytes = way.block_bytes > 0 ? way.block_bytes : nodes * message,
              .under_way = std::min(window, way.under_way)};
  }
  if (block_bytes > 0) blocks.bytes = block_bytes;
  return blocks;
}

void validate_plan(const CommPlan& plan) {
  validate(plan.block_bytes >= 0 && plan.block_bytes <= CommPlan::largest_block,
           "--block {}: use 0 (by the number of nodes) or up to {} bytes", plan.block_bytes,
           CommPlan::largest_block);
  validate(plan.window >= 1 && plan.window <= CommPlan::largest_window, "--window {}: use 1 to {}",
           plan.window, CommPlan::largest_window);
  validate(plan.chunk >= 1 && plan.chunk <= INT_MAX, "chunks of {} elements: MPI counts 1 to {}", plan.chunk,
           INT_MAX);
}

}  // namespace gpt
