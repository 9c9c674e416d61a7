#include "comm/comm.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "comm/tree_comm.hpp"

#include <vector>

namespace gpt {

int64_t owned_part_size(int64_t count, int64_t owners) {
  return count / (owners * Comm::alignment) * Comm::alignment;
}

Range unowned_tail(int64_t count, int64_t owners) { return {owners * owned_part_size(count, owners), count}; }

Range owned_in_lane(const NodePlace& place, int lanes, Sharding sharding, int64_t count) {
  if (place.index >= lanes) return {0, 0};
  const int64_t part = owned_part_size(count, int64_t{lanes} * place.nodes);
  const int64_t lane = place.index * place.nodes * part;
  if (sharding == Sharding::node) return {lane, lane + place.nodes * part};
  return {lane + place.node * part, lane + (place.node + 1) * part};
}

void Comm::sum(Tensor out, const std::vector<Tensor>& summands, Receivers receivers, Queue& queue) {
  expects(summands.size() == 1);
  const Tensor& in = summands.front();
  if (receivers == Receivers::all) return all_reduce(out, in, queue);
  if (out.raw() != in.raw()) queue.copy(out, in);
  reduce_scatter(out, queue);
}

void Comm::validate_sum(DType dtype) {
  const bool is_known = dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64;
  validate(is_known, ExitCode::failed, "a sum of {} over the ranks: use f32, bf16 or f64", name_of(dtype));
}

std::unique_ptr<Comm> make_comm(const World& world, const CommPlan& plan) {
  if (plan.reduction == Reduction::flat) return make_mpi_comm(world.world(), plan.chunk);
  if (plan.reduction == Reduction::hierarchical) return make_hierarchical_comm(world, plan);
  std::vector<Range> one_leaf_each;
  for (int rank = 0; rank < world.size(); ++rank) one_leaf_each.push_back({rank, rank + 1});
  return make_tree_comm(world, plan, one_leaf_each);
}

}  // namespace gpt
