#include "comm/world.hpp"
#include "train/agreement.hpp"
#include "train/training.hpp"
#include "train/versions.hpp"
#include "train_options.hpp"

#include <fmt/format.h>

namespace {

int run(gpt::World& world, int argc, char** argv) {
  gpt::TypedOptions line;
  world.everywhere([&] { line = gpt::parse_command_line(argc, argv); });
  gpt::compare_ranks(world, {{"the command (--help, --version or training)", line.help      ? "--help"
                                                                             : line.version ? "--version"
                                                                                            : "training"}});
  if (line.help || line.version) {
    if (world.is_root()) fmt::print("{}", line.help ? gpt::help_text() : gpt::version_text("gpt_mpi"));
    return static_cast<int>(gpt::ExitCode::finished);
  }
  return gpt::run_training(
      world, {
                 .resolve = [&](const std::string& stored) { return gpt::layered_options(line, stored); },
                 .from_text = [](const std::string& stored) { return gpt::layered_options({}, stored); },
                 .to_text = gpt::to_ini,
             });
}

/// Needed before MPI starts, when no rank can tell the others that options are wrong.
double timeout_of(int argc, char** argv) try {
  return gpt::layered_options(gpt::parse_command_line(argc, argv), "").timeout;
} catch (const gpt::Error&) {  // to be reported by `run`
  return gpt::TrainOptions().timeout;
}

}  // namespace

int main(int argc, char** argv) {
  return gpt::run_program(argc, argv, gpt::Program::training, run, timeout_of(argc, argv));
}
