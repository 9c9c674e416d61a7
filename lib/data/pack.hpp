#pragma once

#include "data/manifest.hpp"
#include "data/progress.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpt {

struct PackOptions {
  std::vector<std::string> inputs;  ///< files and folders
  std::string out;
  std::string tokenizer = "bytes";  ///< "bytes", "chars"
  std::string separator;            ///< between documents; empty: every file is a document
  int64_t shards = 32;
  int64_t val_shards = 1;
  double val_fraction = 0.1;
  uint64_t seed = 0;
  bool overwrite = false;
  std::function<void(const std::string&)> notice;  ///< hears what is unusual about the input; may be empty
};

struct PackReport {
  Manifest manifest;
  int64_t text_bytes = 0;  ///< of the input files
};

/// Turns text files into a dataset; docs/data-format.md has the rules. Memory use does not grow with the
/// corpus but for the list of file names. Nothing is written unless all of the input is fit. @throws Error
PackReport pack(const PackOptions& options, const Progress& progress = no_progress);

}  // namespace gpt
