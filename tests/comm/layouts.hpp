#pragma once

#include "comm/node_layout.hpp"

#include <mpi.h>
#include <string>
#include <vector>

namespace gpt::test {

/// By rank of the job: the lowest rank that it shares memory with. Collective.
inline std::vector<int> found_nodes() {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Bcast(&rank, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  std::vector<int> nodes(static_cast<size_t>(size));
  MPI_Allgather(&rank, 1, MPI_INT, nodes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  return nodes;
}

inline bool only_splits(const NodeOfRank& layout, const std::vector<int>& found) {
  for (size_t a = 0; a < found.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (layout[a] == layout[b] && found[a] != found[b]) return false;
  return true;
}

/// Node layouts worth trying on `ranks` ranks, the whole job: on one machine all, on several hosts those that
/// join none of them. Collective.
inline std::vector<std::string> layouts_for(int ranks) {
  const auto worth_trying = [&]() -> std::vector<std::string> {
    switch (ranks) {
      case 2:
        return {"2", "1,1"};
      case 3:
        return {"3", "2,1", "1,2", "1,1,1", "@0,1,0"};
      case 4:
        return {"4", "2,2", "3,1", "1,1,1,1", "2,1,1", "@0,1,0,1"};
      case 5:
        return {"5", "3,2", "2,2,1", "@0,1,0,1,0", "@2,2,7,0,7"};
      case 8:
        return {"8", "4,4", "2,2,2,2", "3,3,2", "1,7", "@0,1,0,1,0,1,0,1", "@0,1,2,3,3,2,1,0"};
      default:
        return {std::to_string(ranks)};
    }
  };
  const std::vector<int> found = found_nodes();
  std::vector<std::string> layouts;
  for (const std::string& text : worth_trying())
    if (only_splits(parse_node_layout(text, ranks), found)) layouts.push_back(text);
  return layouts;
}

}  // namespace gpt::test
