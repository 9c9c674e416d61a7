#pragma once

#include "data/manifest.hpp"
#include "data/progress.hpp"

#include <cstdint>
#include <string>

namespace gpt {

struct ReshardOptions {
  std::string data;
  std::string out;
  int64_t shards = 32;
  bool overwrite = false;
};

/// Cuts the training part of a dataset into another number of shards: the same tokens in the same order,
/// equal counts to within one. The validation part stays as it is. The source is verified first.
/// @throws Error(usage) for options; Error(damaged) if the source is not whole
Manifest reshard(const ReshardOptions& options, const Progress& progress = no_progress);

}  // namespace gpt
