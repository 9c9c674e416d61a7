#include "train/training.hpp"

#include "base/hash.hpp"
#include "comm/comm.hpp"
#include "data/dataset.hpp"
#include "device/device.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint_evaluation.hpp"
#include "train/evaluator.hpp"
#include "train/granted_gpus.hpp"
#include "train/run_folder.hpp"
#include "train/start_point.hpp"
#include "train/threads.hpp"
#include "train/trainer.hpp"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

namespace gpt {
namespace {

/// A run as far as it is known before anything is written: all checks that need no memory have passed.
struct Prepared {
  StartPoint start;
  TrainOptions options;
  std::string configuration;
  std::optional<Dataset> dataset;
};

void say(const World& world, const std::string& line) {
  if (!world.is_root()) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

Dataset open_dataset(const TrainOptions& options) {
  const bool absent = !std::filesystem::exists(options.data);
  validate(!absent,
           "no dataset in {}: make one with 'gpt_data pack --input FILE --out {}', or without any text with "
           "'gpt_data "
           "synth --out {}'; './run demo' makes the default one",
           options.data, options.data, options.data);
  return Dataset(options.data);
}

void resolve_vocabulary(GptConfig& model, const Dataset& dataset) {
  const int64_t vocabulary = dataset.manifest().vocabulary;
  if (model.vocabulary == 0) model.vocabulary = vocabulary;
  validate(model.vocabulary >= vocabulary,
           "--vocab {} is smaller than the {} tokens of dataset {}: use {} or more, or leave it out",
           model.vocabulary, vocabulary, dataset.folder(), vocabulary);
}

/// Each line of an ini text as a fact of its own, so that a difference names the option.
Facts option_facts(const std::string& text) {
  Facts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos)
      facts.emplace_back("--" + line.substr(0, equals), line.substr(equals + 3));
  }
  return facts;
}

StartPoint agree_on_start(const World& world, const TrainOptions& options) {
  std::string text;
  world.everywhere([&] {
    if (world.is_root()) text = to_text(choose_start(options.resume, options.out + "/checkpoints"));
  });
  return start_from_text(world.broadcast(text));
}

/// Options with the chosen checkpoint's under them, and everything about them that can be wrong.
Prepared prepare(World& world, const OptionSource& source) {
  Prepared run;
  world.everywhere([&] {
    run.options = source.resolve("");
    validate_options(run.options);
  });
  compare_ranks(world, build_facts());
  compare_ranks(world, option_facts(source.to_text(run.options)));
  world.set_layout({run.options.node_layout});

  run.start = agree_on_start(world, run.options);
  world.everywhere([&] {
    std::optional<CheckpointHeader> header;
    if (!run.start.file.empty()) {
      header = read_checkpoint_header(run.start.file);
      run.options = source.resolve(header->configuration);
      validate_options(run.options);
    }
    run.dataset.emplace(open_dataset(run.options));
    resolve_vocabulary(run.options.model, *run.dataset);
    if (header) {
      TrainOptions stored = source.from_text(header->configuration);
      validate_resume(*header, stored, run.options, run.dataset->manifest());
    }
    if (run.options.eval_only || run.options.eval_every > 0)
      validate_evaluation(*run.dataset, run.options.model.context);
    if (!run.options.eval_only) make_plan(run.options, *run.dataset, world.rank(), world.size());
    run.configuration = source.to_text(run.options);
  });
  compare_ranks(world, {{"dataset", to_hex(run.dataset->manifest().fingerprint())}});
  return run;
}

std::unique_ptr<Comm> make_comm(const World& world, const TrainOptions& options) {
  if (options.reduction == "hierarchical") return make_hierarchical_comm(world);
  return make_mpi_comm(world.world());
}

/// Device and communicator of this rank, announced by the root.
struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<Comm> comm;
};

Backend make_backend(const World& world, const TrainOptions& options) {
  const ThreadChoice choice = choose_threads(world, static_cast<int>(options.threads));
  Backend backend{make_cpu_device(choice.threads), make_comm(world, options)};
  say(world,
      fmt::format("{} rank{} on {} node{}, {} each; reduction: {}", world.size(), world.size() > 1 ? "s" : "",
                  world.nodes(), world.nodes() > 1 ? "s" : "", backend.device->name(), backend.comm->name()));
  for (const std::string& warning : thread_warnings(world, choice)) say(world, "warning: " + warning);
  if (const auto notice =
          idle_gpu_notice(world.local_size(), [](const char* name) { return std::getenv(name); }))
    say(world, *notice);
  if (!world.layout_disagreement().empty()) say(world, "notice: " + world.layout_disagreement());
  return backend;
}

void describe(const World& world, const Prepared& run, const Trainer& trainer) {
  const Plan& plan = trainer.plan();
  const GptConfig& model = run.options.model;
  const Manifest& manifest = run.dataset->manifest();
  say(world,
      fmt::format("model: {} layers, {} heads, width {}, context {}, vocabulary {}: {:.2f} M parameters",
                  model.layers, model.heads, model.width, model.context, model.vocabulary,
                  static_cast<double>(Layout(model).parameters()) * 1e-6));
  say(world,
      fmt::format("data: {} ({}), {} shards, {} windows an epoch, {} tokens left over", run.dataset->folder(),
                  manifest.source, plan.lanes, plan.lanes * plan.windows_per_lane,
                  run.dataset->remainder(Split::train, model.context)));
  if (manifest.entropy)
    say(world, fmt::format("data: synthetic, no model's loss can be below {:.4f}", *manifest.entropy));
  say(world, fmt::format(
                 "batch: {} sequences, {} tokens a step; rank 0 has sequences {} to {} from shards {} to {}, "
                 "{} at a time",
                 run.options.global_batch, plan.tokens_per_step, plan.sequences.begin, plan.sequences.end - 1,
                 plan.shards.begin, plan.shards.end - 1, plan.micro_batch));
  if (!run.start.file.empty())
    say(world, fmt::format("resume: step {} of {} from {}, on {} rank{}", trainer.state().step, plan.steps,
                           run.start.file, world.size(), world.size() > 1 ? "s" : ""));
  for (const std::string& text : run.start.passed_over) say(world, "notice: passed over " + text);
}

int evaluate_only(World& world, Prepared& run) {
  if (run.start.file.empty())
    throw SharedError(
        fmt::format("--eval-only: there is no checkpoint in {}/checkpoints: name one with --resume FILE, "
                    "or train first",
                    run.options.out),
        ExitCode::usage);
  const Backend backend = make_backend(world, run.options);
  const EvaluationResult result =
      evaluate_checkpoint(world, *backend.device, *backend.comm, *run.dataset, run.options, run.start.file);
  say(world,
      fmt::format("{}: validation loss {:.8f} over {} windows", run.start.file, result.loss, result.windows));
  return static_cast<int>(ExitCode::finished);
}

bool is_finished(const World& world, const Prepared& run) {
  if (run.start.file.empty()) return false;
  const int64_t done = read_checkpoint_header(run.start.file).step;
  const int64_t steps = make_plan(run.options, *run.dataset, world.rank(), world.size()).steps;
  if (done < steps) return false;
  say(world,
      fmt::format(
          "finished: {} has all {} of {} steps; for more, raise --steps, or train anew with --resume none",
          run.start.file, done, steps));
  return true;
}

void print_sample(const World& world, Trainer& trainer, int64_t tokens) try {
  if (world.is_root() && tokens > 0) say(world, "sample:\n" + trainer.sample(tokens));
} catch (const std::exception& error) {
  say(world, fmt::format("warning: no sample, {}", error.what()));
}

}  // namespace

int run_training(World& world, const OptionSource& source) {
  Prepared run = prepare(world, source);
  if (run.options.eval_only) return evaluate_only(world, run);
  if (is_finished(world, run)) return static_cast<int>(ExitCode::finished);

  std::unique_ptr<RunFolder> folder;
  world.everywhere([&] {
    if (world.is_root()) folder = std::make_unique<RunFolder>(run.options.out);
  });
  if (agree_on_start(world, run.options).file != run.start.file)
    throw SharedError(fmt::format("another job saved a checkpoint in {} while this one started: start again",
                                  run.options.out),
                      ExitCode::usage);
  world.everywhere([&] {
    if (folder) folder->write_text("config.ini", run.configuration);
  });

  const Backend backend = make_backend(world, run.options);
  std::optional<Trainer> trainer;
  world.everywhere([&] {
    trainer.emplace(TrainContext{.world = world,
                                 .device = *backend.device,
                                 .comm = *backend.comm,
                                 .dataset = *run.dataset,
                                 .options = run.options,
                                 .configuration = run.configuration,
                                 .start = run.start});
  });
  describe(world, run, *trainer);
  trainer->run(run.options.out, folder.get());
  print_sample(world, *trainer, run.options.sample_tokens);
  return static_cast<int>(ExitCode::finished);
}

}  // namespace gpt
