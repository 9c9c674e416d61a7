#include "comm/comm.hpp"

namespace gpt {

int64_t Comm::part_size(int64_t count) const { return count / (owners() * alignment) * alignment; }

Range Comm::tail(int64_t count) const { return {owners() * part_size(count), count}; }

std::unique_ptr<Comm> make_comm(const World& world, const CommPlan& plan) {
  if (plan.reduction == Reduction::flat) return make_mpi_comm(world.world(), plan.chunk);
  return make_hierarchical_comm(world, plan);
}

}  // namespace gpt
