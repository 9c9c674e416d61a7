#include "comm/grouping.hpp"

#include <numeric>
#include <utility>

namespace gpt {

Grouping grouping_of(const World& world) {
  const int node = world.node_index();
  NodeOfRank layout(static_cast<size_t>(world.size()));
  check_mpi(MPI_Allgather(&node, 1, MPI_INT, layout.data(), 1, MPI_INT, world.world()));
  return {.layout = std::move(layout),
          .rank = world.rank(),
          .world = world.world(),
          .node = world.node(),
          .peers = world.peers()};
}

Grouping flat_grouping(const World& world) {
  NodeOfRank layout(static_cast<size_t>(world.size()));
  std::iota(layout.begin(), layout.end(), 0);
  return {.layout = std::move(layout),
          .rank = world.rank(),
          .world = world.world(),
          .node = MPI_COMM_SELF,
          .peers = world.world()};
}

}  // namespace gpt
