#include "comm/nccl_scratch.hpp"

#include "base/integers.hpp"
#include "comm/comm.hpp"

namespace gpt {

int64_t nccl_lane_block(const CommPlan& plan, int64_t nodes) {
  constexpr int64_t usual = int64_t{4} << 20;  // bytes, at which NCCL is near its full rate
  const int64_t bytes = plan.block_bytes > 0 ? plan.block_bytes : usual;
  return round_up(ceil_div(bytes, size_of(DType::f32)), nodes * Comm::alignment);
}

int64_t nccl_scratch_bytes(const CommPlan& plan, int64_t ranks_of_node, int64_t nodes) {
  if (plan.reduction != Reduction::hierarchical) return 0;
  const int64_t block = nccl_lane_block(plan, nodes);
  int64_t bytes = 0;
  if (plan.wire_node == DType::bf16) bytes += rounded_hop_bytes(ranks_of_node, block);
  if (plan.wire_peers == DType::bf16 && nodes > 1) bytes += rounded_hop_bytes(nodes, block / nodes);
  return bytes;
}

int64_t rounded_hop_bytes(int64_t ranks, int64_t piece) { return 2 * ranks * piece * size_of(DType::bf16); }

}  // namespace gpt
