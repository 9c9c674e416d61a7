#include "bench/save.hpp"

#include "base/error.hpp"
#include "bench/commands.hpp"
#include "bench/output_file.hpp"
#include "bench/own_step.hpp"
#include "train/threads.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

namespace gpt {
namespace {

struct Options {
  std::string preset = "gpt2";
  int64_t context = 64;
  int64_t vocabulary = 50257;
  int64_t micro_batch = 1;
  int64_t threads = 1;
  std::string zero = "0";
  std::string folder = ".";
  int64_t steps = 5, rounds = 5;
  std::string json;
};

/// @throws Error(usage)
SaveBench bench_of(const Options& options) {
  validate(options.micro_batch >= 1, "--micro-batch {}: use 1 or more", options.micro_batch);
  validate(options.steps >= 0 && options.rounds >= 1,
           "--steps {} --rounds {}: use 0 or more (0: no steps), and 1 or more", options.steps,
           options.rounds);
  validate(options.threads >= 1, "--threads {}: use 1 or more", options.threads);
  validate(options.zero == "0" || options.zero == "1", "--zero {}: use 0 or 1 here", options.zero);
  check_threads(options.threads);
  return {.preset = options.preset,
          .config = bench_config(options.preset, options.context, options.vocabulary),
          .folder = options.folder,
          .micro_batch = options.micro_batch,
          .threads = static_cast<int>(options.threads),
          .sharded = options.zero != "0",
          .steps = options.steps,
          .rounds = options.rounds};
}

}  // namespace

ExitCode bench_save(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line(
      "gpt_bench save: checkpoints of the ranks of mpirun or srun beside plain writes of the same bytes, in "
      "turns,\nand what training notices of them. On CPUs. Rows: docs/benchmarks.md.");
  // clang-format off
  line.group("Work")
      ("preset", option(o.preset, "NAME"), "model")
      ("context", option(o.context, "N"), "positions a sequence")
      ("vocab", option(o.vocabulary, "N"), "tokens")
      ("micro-batch", option(o.micro_batch, "N"), "sequences of a rank in a step")
      ("threads", option(o.threads, "N"), "a rank")
      ("zero", option(o.zero, "NAME"), "optimizer state: 0 all on each rank; 1 divided over ranks");
  line.group("Measuring")
      ("folder", option(o.folder, "DIR"), "whose disk: a folder that all ranks see")
      ("steps", option(o.steps, "N"), "without a save, in a round; 0: measure no steps")
      ("rounds", option(o.rounds, "N"), "in turns; one more before warms the disk's cache")
      ("json", option(o.json, "FILE"), "write the figures there");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  SaveBench bench;
  world.everywhere([&] {
    bench = bench_of(o);
    if (!world.is_root()) return;
    std::error_code error;
    validate(std::filesystem::is_directory(o.folder, error), "--folder {}: there is no such folder",
             o.folder);
    check_output_file("json", o.json);
  });
  world.set_layout({});
  const ThreadChoice choice = choose_threads(world, bench.threads);
  for (const std::string& warning : thread_warnings(world, choice))
    if (world.is_root()) fmt::print(stderr, "gpt_bench: warning: {}\n", warning);
  const SaveResult result = measure_saves(world, bench);
  world.everywhere([&] {
    if (!world.is_root()) return;
    print_saves(bench, result);
    if (!o.json.empty()) write_json(o.json, saves_json(bench, result));
  });
  return ExitCode::finished;
}

}  // namespace gpt
