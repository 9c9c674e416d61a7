#pragma once

#include "data/manifest.hpp"
#include "data/progress.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

struct ImportOptions {
  /// Files of training tokens in this order; or one folder, whose *.bin files with "val" in the name
  /// validate, while the others train, and whose meta.pkl is the default of `meta`
  std::vector<std::string> inputs;
  std::vector<std::string> val_inputs;  ///< none: the tail of the training tokens, by val_fraction
  TokenFormat format = TokenFormat::automatic;
  std::string meta;      ///< nanoGPT's meta.pkl; its texts become a character tokenizer
  std::string alphabet;  ///< a UTF-8 file with the text of every id, one character each, in order of the ids
  int64_t vocabulary = 0;  ///< 0: from meta or alphabet, else GPT-2's 50257
  std::string out;
  int64_t shards = 32;
  int64_t val_shards = 1;
  double val_fraction = 0.1;
  bool overwrite = false;
};

/// Turns token files of llm.c or nanoGPT into a dataset. Every file is a document. Without texts for the ids
/// the dataset's tokenizer is "ids". Ids whose characters are not in code-point order are renumbered.
/// @throws Error(usage) for files that are not what they should be; Error(damaged) naming file, offset and
/// value of a token outside the vocabulary
Manifest import_tokens(const ImportOptions& options, const Progress& progress = no_progress);

}  // namespace gpt
