#pragma once

#include "data/manifest.hpp"
#include "data/progress.hpp"

#include <cstdint>
#include <string>

namespace gpt {

struct SynthOptions {
  std::string out;
  std::string tokenizer = "chars";  ///< "bytes", "chars"
  int64_t tokens = 1'000'000;       ///< for training
  int64_t val_tokens = -1;          ///< below zero: a tenth of `tokens`
  int64_t shards = 32;
  int64_t val_shards = 1;
  uint64_t seed = 0;
  bool overwrite = false;
};

/// A dataset of stories drawn from a grammar (make_story_grammar), each a line, independent of each other.
/// The manifest's entropy is exact: expected information of a story divided by its expected length in tokens.
/// The last story of each split is cut where the tokens end. @throws Error(usage)
Manifest synth(const SynthOptions& options, const Progress& progress = no_progress);

}  // namespace gpt
