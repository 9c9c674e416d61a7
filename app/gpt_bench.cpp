#include "base/error.hpp"
#include "bench/commands.hpp"
#include "train/versions.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string>

namespace gpt {
namespace {

constexpr const char* overview = R"(gpt_bench measures, alone or under mpirun or srun.

  gpt_bench step      time of training steps, beside PyTorch's, and where it goes
  gpt_bench peers     training steps of several models beside PyTorch's and JAX's, as a table; runs alone
  gpt_bench generate  tokens a second of generation with a cache, beside Hugging Face's; runs alone
  gpt_bench comm      sums and copies over the ranks: time, bandwidth, and whether the sums are right
  gpt_bench scaling   training steps on 1, 2, 4, ... ranks
  gpt_bench model     predicts steps on many nodes; runs alone
  gpt_bench save      checkpoints beside plain writes of the same bytes, and what training notices of them

On ranks of one machine: tools/mpirun.sh 2 ./gpt_bench comm; on a cluster its own mpirun or srun.
gpt_bench COMMAND --help lists the options of a command; gpt_bench --version the versions of libraries.
)";

constexpr const char* names = "step, peers, generate, comm, scaling, model, save";

ExitCode run(World& world, const Arguments& arguments) {
  const std::map<std::string, ExitCode (*)(World&, const Arguments&)> commands{
      {"step", bench_step},       {"peers", bench_peers}, {"generate", bench_generate}, {"comm", bench_comm},
      {"scaling", bench_scaling}, {"model", bench_model}, {"save", bench_save}};
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (first == "--help" || first == "-h" || first == "help" || first == "--version") {
    if (world.is_root()) fmt::print("{}", first == "--version" ? version_text("gpt_bench") : overview);
    return ExitCode::finished;
  }
  const auto command = commands.find(first);
  world.everywhere([&] {
    validate(command != commands.end(), "'{}': say what to measure: {}; --help explains them", first, names);
  });
  return command->second(world, {arguments.begin() + 1, arguments.end()});
}

}  // namespace

bool parse(CommandLine& line, const Arguments& arguments, const World& world) {
  std::optional<std::string> help;
  world.everywhere([&] {
    try {
      help = line.parse(arguments);
    } catch (const boost::program_options::error& error) {
      throw Error(fmt::format("{} (gpt_bench COMMAND --help lists the options)", error.what()),
                  ExitCode::usage);
    }
  });
  if (help && world.is_root()) fmt::print("{}", *help);
  return !help;
}

}  // namespace gpt

int main(int argc, char** argv) {
  return gpt::run_program(argc, argv, gpt::Program::bench, [](gpt::World& world, int count, char** words) {
    return static_cast<int>(gpt::run(world, {words + std::min(count, 1), words + count}));
  });
}
