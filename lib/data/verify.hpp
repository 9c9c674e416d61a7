#pragma once

#include "data/progress.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

struct VerifyReport {
  int64_t shards = 0;
  int64_t tokens = 0;
  std::vector<std::string> problems;  ///< each names the file, and offset and value where there is one
};

/// Reads a whole dataset and compares it with its checksums, its manifest and the rules of the format: every
/// token below the vocabulary, document offsets in order, shards of a split equal to within one token.
/// @throws Error if there is no manifest to compare with
VerifyReport verify(const std::string& folder, const Progress& progress = no_progress);

}  // namespace gpt
