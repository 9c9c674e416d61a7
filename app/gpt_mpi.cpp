#include "base/error.hpp"
#include "base/notice.hpp"
#include "base/signals.hpp"
#include "comm/facts.hpp"
#include "comm/siblings.hpp"
#include "comm/world.hpp"
#include "train/preflight.hpp"
#include "train/training.hpp"
#include "train/versions.hpp"
#include "train_options.hpp"

#include <fmt/format.h>
#include <optional>
#include <string>

namespace {

void answer(const gpt::TypedOptions& line) {
  fmt::print("{}", line.help ? gpt::help_text() : gpt::version_text("gpt_mpi"));
}

std::string command_of(const gpt::TypedOptions& line) {
  if (line.help) return "--help";
  if (line.version) return "--version";
  return line.preflight ? "--preflight" : "training";
}

bool asks_for_preflight(int argc, char** argv) try {
  return command_of(gpt::parse_command_line(argc, argv)) == "--preflight";
} catch (const gpt::Error&) {  // to be reported by `run`
  return false;
}

int run(gpt::World& world, int argc, char** argv) {
  if (asks_for_preflight(argc, argv)) gpt::expect_preflight(world);
  gpt::TypedOptions line;
  world.everywhere([&] { line = gpt::parse_command_line(argc, argv); });
  gpt::compare_ranks(world, {{"the command (--help, --version, --preflight or training)", command_of(line)}});
  if (line.help || line.version) {
    if (world.is_root()) answer(line);
    return static_cast<int>(gpt::ExitCode::finished);
  }
  const gpt::OptionSource source = {
      .resolve = [&](const std::string& stored) { return gpt::layered_options(line, stored); },
      .from_text = [](const std::string& stored) { return gpt::layered_options({}, stored); },
      .to_text = gpt::to_ini,
  };
  return line.preflight ? gpt::run_preflight(world, source) : gpt::run_training(world, source);
}

/// Needed before MPI starts, when no rank can tell the others that options are wrong.
double timeout_of(int argc, char** argv) try {
  const gpt::TypedOptions line = gpt::parse_command_line(argc, argv);
  const double timeout = gpt::layered_options(line, "").timeout;
  return line.preflight ? gpt::preflight_timeout(timeout) : timeout;
} catch (const gpt::Error&) {  // to be reported by `run`
  return gpt::TrainOptions().timeout;
}

/// Help, versions and mistyped options need no ranks, and to start MPI may take seconds: a process that no
/// launcher started answers at once. @return its exit code; nothing: there is a job to do
std::optional<int> answer_alone(int argc, char** argv) try {
  if (gpt::is_launched()) return std::nullopt;
  const gpt::TypedOptions line = gpt::parse_command_line(argc, argv);
  if (!line.help && !line.version) return std::nullopt;
  answer(line);
  return static_cast<int>(gpt::ExitCode::finished);
} catch (const gpt::Error& error) {
  gpt::notice(fmt::format("gpt_mpi: {}", error.what()));
  return static_cast<int>(error.code());
}

}  // namespace

int main(int argc, char** argv) {
  gpt::take_stop_requests();
  if (const std::optional<int> code = answer_alone(argc, argv)) return *code;
  return gpt::run_program(argc, argv, gpt::Program::training, run, timeout_of(argc, argv));
}
