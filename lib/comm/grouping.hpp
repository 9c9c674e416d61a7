#pragma once

#include "base/mpi.hpp"
#include "comm/node_layout.hpp"
#include "comm/world.hpp"

namespace gpt {

/// The groups of a hierarchy. Communicators belong to somebody who outlives it.
struct Grouping {
  NodeOfRank layout;
  int rank = 0;
  MPI_Comm world = MPI_COMM_NULL;
  MPI_Comm node = MPI_COMM_NULL;   ///< ranks of this one's node
  MPI_Comm peers = MPI_COMM_NULL;  ///< ranks with this one's index on their nodes
};

/// As the world's layout has it. Collective.
Grouping grouping_of(const World& world);

/// Every rank a node of its own.
Grouping flat_grouping(const World& world);

}  // namespace gpt
