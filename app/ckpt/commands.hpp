#pragma once

#include "base/exit_code.hpp"
#include "command_line.hpp"

#include <string>

namespace gpt {

/// Each command of gpt_ckpt reads its own options and prints what it found.
ExitCode list_run(const Arguments& arguments);
ExitCode inspect_file(const Arguments& arguments);
ExitCode verify_files(const Arguments& arguments);
ExitCode diff_files(const Arguments& arguments);
ExitCode audit_run(const Arguments& arguments);

/// False if help was wanted, and printed. @throws Error(usage)
bool parse(CommandLine& line, const Arguments& arguments);

/// The folder that holds the checkpoints of `run`, which may be a run folder or that folder itself.
/// @throws Error(usage) if it is neither
std::string checkpoints_of(const std::string& run);

}  // namespace gpt
