#pragma once

#include "train/options.hpp"

#include <string>

namespace gpt {

/// What was typed, read but not yet turned into options. The same names mean the same on the command line, in
/// a `--config` file and in the configuration that a checkpoint stores.
struct TypedOptions {
  bool help = false;
  bool version = false;
  bool preflight = false;
  std::string typed;   ///< options of the command line as an ini text
  std::string config;  ///< text of the --config file
  std::string config_file;
};

/// @throws Error(usage) for unknown or repeated options, and if the file of --config cannot be read
TypedOptions parse_command_line(int argc, const char* const* argv);

/// Defaults, then `stored` (ini text of a checkpoint, or empty), then the config file, then the command line.
/// In each layer --preset comes first and the model's own options refine it. What belongs to one start alone
/// (--out, --resume, --threads, …) is not taken from `stored`. @throws Error(usage) naming option and value
TrainOptions layered_options(const TypedOptions& line, const std::string& stored);

/// All options, a line `name = value` for each.
std::string to_ini(TrainOptions options);

/// Grouped, with defaults.
std::string help_text();

}  // namespace gpt
