#pragma once

#include "base/exit_code.hpp"
#include "comm/world.hpp"
#include "command_line.hpp"

namespace gpt {

/// Each command of gpt_bench reads its own options and measures; collective over the world. Only the root
/// prints.
ExitCode bench_step(World& world, const Arguments& arguments);
ExitCode bench_peers(World& world, const Arguments& arguments);
ExitCode bench_comm(World& world, const Arguments& arguments);
ExitCode bench_generate(World& world, const Arguments& arguments);
ExitCode bench_scaling(World& world, const Arguments& arguments);
ExitCode bench_model(World& world, const Arguments& arguments);
ExitCode bench_save(World& world, const Arguments& arguments);

/// False if help was wanted, and printed by the root. @throws Error(usage) on every rank
bool parse(CommandLine& line, const Arguments& arguments, const World& world);

}  // namespace gpt
