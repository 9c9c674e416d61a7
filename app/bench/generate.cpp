#include "base/error.hpp"
#include "bench/commands.hpp"
#include "bench/output_file.hpp"
#include "bench/own_generation.hpp"
#include "bench/own_step.hpp"
#include "bench/peer_arguments.hpp"
#include "bench/progress.hpp"
#include "bench/times_json.hpp"
#include "device/cpu_peaks.hpp"
#include "model/precision.hpp"
#include "train/threads.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace gpt {
namespace {

struct Options {
  std::string preset = "gpt2";
  int64_t context = 1024;
  int64_t vocabulary = 50257;
  int64_t sequences = 1;
  int64_t prompt = 16;
  int64_t tokens = 256;
  std::string precision = "fp32";
  int64_t threads = 0;
  int64_t rounds = 5;
  std::string json;
  Peer peer{
      .script = "tests/peers/hf_generate.py", .library = "transformers", .module = "transformers, torch"};
};

/// @throws Error(usage)
void check(const Options& o) {
  validate(o.sequences >= 1 && o.sequences <= Generator::most_sequences, "--sequences {}: use 1 to {}",
           o.sequences, Generator::most_sequences);
  validate(o.prompt >= 1 && o.tokens >= 2 && o.prompt + o.tokens <= o.context,
           "--prompt {} --tokens {}: use 1 or more and 2 or more, together at most --context {}", o.prompt,
           o.tokens, o.context);
  precision_named(o.precision);
  validate(o.rounds >= 1, "--rounds {}: use a positive number", o.rounds);
  check_peer_limit(o.peer.limit);
  check_threads(o.threads);
}

std::vector<std::string> peer_arguments(const GenerationSetup& setup) {
  std::vector<std::string> arguments;
  add_model(arguments, setup.config);
  add_number(arguments, "sequences", setup.sequences);
  add_number(arguments, "prompt", setup.prompt);
  add_number(arguments, "tokens", setup.tokens);
  add_number(arguments, "threads", setup.threads);
  if (setup.type == DType::bf16) arguments.emplace_back("--bf16");
  return arguments;
}

/// Whole generations of this program and the peer, and what of this program's comes after the prompt.
struct Measured {
  Times own, own_steps, peer;
  double weight_bytes = 0.0;  ///< that a step reads
  double read_bytes = 0.0;    ///< that this machine reads in a second, at best

  double weight_rate(int64_t steps) const {
    return weight_bytes * static_cast<double>(steps) / own_steps.least();
  }
};

double tokens_per_second(const Times& times, const GenerationSetup& setup) {
  return static_cast<double>(setup.sequences * setup.tokens) / times.least();
}

void print(const Measured& measured, const std::string& peer, const GenerationSetup& setup) {
  const auto row = [&](const std::string& name, const Times& times) {
    fmt::print("  {:<28} {:>9.1f} ms least {:>9.1f} ms median {:>10.1f} tokens/s\n", name,
               times.least() * 1e3, times.median() * 1e3, tokens_per_second(times, setup));
  };
  row("gpt_mpi", measured.own);
  if (!peer.empty()) {
    row(peer, measured.peer);
    fmt::print("  ratio of the least times: {:.2f}\n", measured.peer.least() / measured.own.least());
  }
  const int64_t steps = setup.tokens - 1;
  fmt::print(
      "  weights: {:.1f} MB a step, {:.2f} ms a step behind the prompt: {:.1f} GB/s, {:.1f} % of the "
      "{:.1f} GB/s that this machine reads\n",
      measured.weight_bytes / 1e6, measured.own_steps.least() * 1e3 / static_cast<double>(steps),
      measured.weight_rate(steps) / 1e9, 100 * measured.weight_rate(steps) / measured.read_bytes,
      measured.read_bytes / 1e9);
}

nlohmann::json figures_json(const Times& times, const GenerationSetup& setup) {
  nlohmann::json figures = times_json(times);
  figures["tokens_per_s"] = tokens_per_second(times, setup);
  return figures;
}

void measure(const World& world, const Options& options, const GptConfig& config) {
  warn_of_precision(world, precision_named(options.precision));
  const std::optional<Peer> chosen = chosen_peer(world, options.peer);
  const GenerationSetup setup{.config = config,
                              .sequences = options.sequences,
                              .prompt = options.prompt,
                              .tokens = options.tokens,
                              .threads = choose_threads(world, static_cast<int>(options.threads)).threads,
                              .type = precision_named(options.precision)};
  OwnGeneration own(setup);
  std::optional<PeerProcess> peer;
  if (chosen) peer.emplace(*chosen, peer_arguments(setup));

  own();  // first touch and creation of primitives
  Measured measured;
  measured.weight_bytes = static_cast<double>(own.weight_bytes());
  Progress progress(world, "generate", options.rounds);
  for (int64_t round = 0; round < options.rounds; ++round) {
    const OwnGeneration::Took took = own();
    measured.own.add(took.seconds());
    measured.own_steps.add(took.generation);
    if (peer) measured.peer.add(peer->round());
    measured.read_bytes = std::max(measured.read_bytes, measure_read_bytes(setup.threads));
    progress(fmt::format("{:.1f} ms", took.seconds() * 1e3));
  }
  fmt::print("generate: {}, {} sequence{}, {} tokens behind {}, {}, {} thread{}\n", options.preset,
             setup.sequences, setup.sequences > 1 ? "s" : "", setup.tokens, setup.prompt, options.precision,
             setup.threads, setup.threads > 1 ? "s" : "");
  print(measured, peer ? peer->name() : "", setup);
  if (options.json.empty()) return;
  const double rate = measured.weight_rate(setup.tokens - 1);
  nlohmann::json report = {{"benchmark", "generate"},
                           {"preset", options.preset},
                           {"sequences", setup.sequences},
                           {"prompt", setup.prompt},
                           {"tokens", setup.tokens},
                           {"precision", options.precision},
                           {"threads", setup.threads},
                           {"gpt_mpi", figures_json(measured.own, setup)},
                           {"steps_least_s", measured.own_steps.least()},
                           {"weight_bytes", measured.weight_bytes},
                           {"weight_bytes_per_s", rate},
                           {"read_bytes_per_s", measured.read_bytes},
                           {"of_read", rate / measured.read_bytes}};
  if (peer) {
    report["peer"] = figures_json(measured.peer, setup);
    report["peer"]["name"] = peer->name();
  }
  write_json(options.json, report);
}

}  // namespace

ExitCode bench_generate(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line("gpt_bench generate: tokens a second of generation with a cache, beside Hugging Face's");
  // clang-format off
  line.group("Options")
      ("preset", option(o.preset, "NAME"), "model")
      ("context", option(o.context, "N"), "positions that the model has")
      ("vocab", option(o.vocabulary, "N"), "tokens that the model has")
      ("sequences", option(o.sequences, "N"), "sequences of one prompt, side by side")
      ("prompt", option(o.prompt, "N"), "tokens of the prompt")
      ("tokens", option(o.tokens, "N"), "tokens to generate behind it")
      ("precision", option(o.precision, "NAME"), "fp32, bf16")
      ("threads", option(o.threads, "N"), "0: all cores that may be used")
      ("rounds", option(o.rounds, "N"), "rounds, alternating with the peer's")
      ("json", option(o.json, "FILE"), "write the figures there")
      ("python", option(o.peer.python, "NAME"),
       "a Python with Hugging Face's transformers to compare with; auto: python3 if it has them; none: no comparison")
      ("peer-script", option(o.peer.script, "FILE"), "the peer's program")
      ("peer-timeout", option(o.peer.limit, "SECONDS"), "that the peer may take to start, or for a round");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  GptConfig config;
  world.everywhere([&] {
    validate(world.size() == 1,
             "gpt_bench generate measures one process: start it without mpirun, or with 1 rank");
    config = bench_config(o.preset, o.context, o.vocabulary);
    check(o);
    check_output_file("json", o.json);
  });
  world.set_layout({});
  measure(world, o, config);
  return ExitCode::finished;
}

}  // namespace gpt
