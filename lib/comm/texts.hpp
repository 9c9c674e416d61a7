#pragma once

#include "base/mpi.hpp"

#include <climits>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// Rank 0's text on every rank of `comm`; in messages of at most `limit` bytes, since MPI counts in int.
/// Collective.
std::string broadcast_text(std::string text, MPI_Comm comm, int64_t limit = INT_MAX);

/// Every rank's text, by rank, on every rank; each round receives at most `limit` bytes. Collective.
std::vector<std::string> gather_texts(std::string_view text, MPI_Comm comm, int64_t limit = INT_MAX);

}  // namespace gpt
