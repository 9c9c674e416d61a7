#pragma once

#include "data/dataset.hpp"

#include <optional>
#include <string>

namespace gpt {

/// A dataset as one rank sees it.
struct DatasetLook {
  std::optional<Dataset> dataset;  ///< none of its shards open
  std::string problem;             ///< why there is none, or what is wrong with a shard; empty: nothing
};

/// Reads the manifest and opens and checks this rank's part of the shards, training and validation: every
/// `ranks`-th from `rank` on, so that the ranks of a node look at all of them. Blocks of data are not read.
DatasetLook look_at_dataset(const std::string& folder, int rank, int ranks);

}  // namespace gpt
