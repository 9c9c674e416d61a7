#include "base/error.hpp"
#include "bench/commands.hpp"
#include "bench/operator_table.hpp"
#include "bench/output_file.hpp"
#include "bench/own_step.hpp"
#include "bench/peer_arguments.hpp"
#include "bench/progress.hpp"
#include "bench/times_json.hpp"
#include "bench/utilization.hpp"
#include "model/layout.hpp"
#include "model/model_flops.hpp"
#include "model/precision.hpp"
#include "train/device_choice.hpp"
#include "train/memory.hpp"
#include "train/memory_check.hpp"
#include "train/threads.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace gpt {
namespace {

struct Options {
  std::string preset = "gpt2";
  int64_t context = 64;
  int64_t micro_batch = 0;
  int64_t global_batch = 0;
  int64_t vocabulary = 50257;
  std::string precision = "fp32";
  std::string rounding = "nearest";
  std::string recompute = "none";
  std::string device = "cpu";
  std::string attention = "own";
  int64_t threads = 0;
  int64_t steps = 3;
  int64_t rounds = 5;
  bool operators = true;
  std::string memory_check = "refuse";
  std::string json;
  Peer peer{.script = "tests/peers/torch_step.py"};
};

/// Sequences of all ranks in a step.
int64_t global_batch(const Options& options, int ranks) {
  constexpr int64_t small = 4;
  if (options.global_batch > 0) return options.global_batch;
  return options.micro_batch > 0 ? options.micro_batch * ranks : std::max<int64_t>(small, ranks);
}

/// @throws Error(usage)
void check(const Options& options, int ranks) {
  validate(options.micro_batch >= 0, "--micro-batch {}: use 1 or more, or 0 for all sequences of a rank",
           options.micro_batch);
  validate(options.global_batch == 0 || options.global_batch >= ranks,
           "--global-batch {}: use {} or more, one sequence a rank, or 0", options.global_batch, ranks);
  validate(options.steps >= 1 && options.rounds >= 1, "--steps {} --rounds {}: use positive numbers",
           options.steps, options.rounds);
  rounds_stochastically(options.rounding, precision_named(options.precision));
  recompute_named(options.recompute);
  validate(options.memory_check == "refuse" || options.memory_check == "warn",
           "--memory-check {}: use refuse or warn", options.memory_check);
  check_peer_limit(options.peer.limit);
  check_threads(options.threads);
  validate_device(options.device);
  validate_attention(options.attention, options.device);
  validate(options.device == "cpu" || ranks == 1, "--device {}: on a GPU the step of one rank is measured",
           options.device);
}

void print_row(const std::string& name, const Times& times, int64_t tokens, int64_t peak_bytes) {
  fmt::print("  {:<28} {:>9.1f} ms least {:>9.1f} ms median {:>10.0f} tokens/s{}\n", name,
             times.least() * 1e3, times.median() * 1e3, static_cast<double>(tokens) / times.least(),
             peak_bytes > 0 ? ", memory at most " + readable_bytes(peak_bytes) : "");
}

/// What was measured, beside what.
struct Measured {
  Times own, peer;
  int64_t own_peak = 0, peer_peak = 0;  ///< bytes
  StepProfile profile;                  ///< the least times of steps whose operations were timed
  Peaks peaks;
};

void print(const Measured& measured, const std::string& peer, int64_t tokens) {
  print_row("gpt_mpi", measured.own, tokens, measured.own_peak);
  if (peer.empty()) return;
  print_row(peer, measured.peer, tokens, measured.peer_peak);
  fmt::print("  ratio of the least times: {:.2f}\n", measured.peer.least() / measured.own.least());
}

nlohmann::json figures_json(const Times& times, int64_t peak_bytes) {
  nlohmann::json figures = times_json(times);
  figures["peak_bytes"] = peak_bytes;
  return figures;
}

/// @param sequences  of this rank
/// @throws SharedError(usage) where the ranks need more memory than there is
void require_memory(const World& world, const DeviceChoice& device, const Options& options,
                    const GptConfig& config, int64_t sequences, int64_t micro_batch) {
  TrainOptions train = fixed_plan();
  train.model = config;
  train.precision = options.precision;
  train.recompute = options.recompute;
  train.threads = options.threads;
  train.attention = options.attention;
  train.device = device.gpu ? "cuda" : "cpu";
  train.save_every = 0;
  train.memory_check = options.memory_check;
  Plan plan;
  plan.sequences = {0, sequences};
  plan.micro_batch = micro_batch;
  Console console(world.is_root());
  check_memory(console, world, device, train, plan, StateDivision::never);
}

CudaDeviceInfo info_of(const DeviceChoice& device) {
  return visible_cuda_devices()[static_cast<size_t>(*device.gpu)];
}

/// Bytes: the most that this process has had; of a GPU what is taken now, since its buffers stay.
int64_t memory_in_use(const DeviceChoice& device) {
  return device.gpu ? info_of(device).memory - free_cuda_memory(*device.gpu) : peak_memory();
}

/// Step times, alternating with a peer's where there is one, and with steps whose operations are timed.
void measure(const World& world, const Options& options, const GptConfig& config) {
  const DeviceChoice device = choose_device(world, options.device);
  world.everywhere([&] { validate_attention(options.attention, device.gpu ? "cuda" : "cpu"); });
  const std::optional<Peer> chosen = chosen_peer(world, options.peer);
  const ThreadChoice choice = choose_threads(world, static_cast<int>(options.threads));
  const int64_t batch = global_batch(options, world.size());
  const int64_t sequences = part_of(batch, world.size(), world.rank()).size();
  const int64_t micro_batch = options.micro_batch > 0 ? std::min(options.micro_batch, sequences) : sequences;
  const DType type = precision_named(options.precision);
  require_memory(world, device, options, config, sequences, micro_batch);
  if (!device.gpu) warn_of_precision(world, type);
  Measured measured;
  std::optional<Utilization> used;
  if (device.gpu) {
    const GpuLimits limits = limits_of(info_of(device));
    measured.peaks = limits.peaks;
    used = Utilization{.gpu = info_of(device).name,
                       .documented = limits.documented,
                       .peak_flops = limits.peaks.flops(type),
                       .model_flops = model_flops_per_token(config, Layout(config).parameters()) *
                                      static_cast<double>(batch * options.context)};
  }
  OperatorTimes operators(device.gpu ? make_cuda_timer(*device.gpu) : nullptr);
  OwnStep own(world,
              {.config = config,
               .sequences = sequences,
               .micro_batch = micro_batch,
               .global_batch = batch,
               .threads = choice.threads,
               .gpu = device.gpu,
               .cudnn_attention = options.attention == "cudnn",
               .plan = {},
               .type = type,
               .rounding = {.stochastic = rounds_stochastically(options.rounding, type)},
               .recompute = recompute_named(options.recompute)},
              &operators);
  std::optional<PeerProcess> peer;
  if (chosen)
    peer.emplace(*chosen,
                 training_arguments(config, type, batch, options.steps, choice.threads, chosen->compiled));

  own(Reducing::overlapped);                  // first touch and creation of primitives
  measured.own_peak = memory_in_use(device);  // measuring a CPU's peaks takes memory, too
  measured.peer_peak = peer ? peer->peak_bytes() : 0;
  Progress progress(world, "step", options.rounds);
  for (int64_t round = 0; round < options.rounds; ++round) {
    measured.own.add(own.round(options.steps));
    if (peer) measured.peer.add(peer->round());
    for (int64_t step = 0; options.operators && step < options.steps; ++step) {
      operators.start();
      StepProfile profile = operators.stop(own(Reducing::overlapped).seconds);
      const bool first = measured.profile.operators.empty();
      measured.profile = first ? std::move(profile) : least_of(measured.profile, profile);
    }
    if (options.operators && !device.gpu)
      measured.peaks = best_of(measured.peaks, measure_peaks(choice.threads));
    progress(fmt::format("{:.1f} ms a step", measured.own.all.back() * 1e3));
  }
  if (!world.is_root()) return;
  const int64_t tokens = batch * options.context;
  fmt::print("step: {}, batch {} x {}, {}, {} rank{}, {} thread{} each\n", options.preset, batch,
             options.context, options.precision, world.size(), world.size() > 1 ? "s" : "", choice.threads,
             choice.threads > 1 ? "s" : "");
  print(measured, peer ? peer->name() : "", tokens);
  if (used) print_utilization(*used, measured.own);
  if (options.operators) print_operators(measured.profile, measured.peaks, measured.own.least());
  if (options.json.empty()) return;
  nlohmann::json report = {{"benchmark", "step"},
                           {"preset", options.preset},
                           {"context", options.context},
                           {"global_batch", batch},
                           {"precision", options.precision},
                           {"rounding", options.rounding},
                           {"recompute", options.recompute},
                           {"attention", options.attention},
                           {"ranks", world.size()},
                           {"threads", choice.threads},
                           {"tokens", tokens},
                           {"gpt_mpi", figures_json(measured.own, measured.own_peak)}};
  if (peer) {
    report["peer"] = figures_json(measured.peer, measured.peer_peak);
    report["peer"]["name"] = peer->name();
  }
  if (used) report["gpu"] = utilization_json(*used, measured.own);
  if (options.operators)
    report["operators"] = operators_json(measured.profile, measured.peaks, measured.own.least());
  write_json(options.json, report);
}

}  // namespace

ExitCode bench_step(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line("gpt_bench step: time of training steps, beside PyTorch's, and where it goes");
  // clang-format off
  line.group("Options")
      ("preset", option(o.preset, "NAME"), "model")
      ("context", option(o.context, "N"), "positions a sequence")
      ("micro-batch", option(o.micro_batch, "N"), "sequences of a rank at a time, at most; 0: all that it has")
      ("global-batch", option(o.global_batch, "N"),
       "sequences a step; 0: --micro-batch on every rank, 4 in all where that is 0, too")
      ("vocab", option(o.vocabulary, "N"), "tokens")
      ("precision", option(o.precision, "NAME"), "fp32, bf16")
      ("rounding", option(o.rounding, "NAME"), "of weights, from fp32 to bf16: nearest, stochastic")
      ("recompute", option(o.recompute, "NAME"), "none, attention, block: in backward, instead of keeping it")
      ("device", option(o.device, "NAME"), "cpu; cuda: a GPU; auto: a GPU if there is one")
      ("attention", option(o.attention, "NAME"), "on a GPU: own; cudnn (cuDNN's kernels: with bf16)")
      ("threads", option(o.threads, "N"), "a rank; 0: its share of the cores")
      ("steps", option(o.steps, "N"), "steps a round")
      ("rounds", option(o.rounds, "N"), "rounds, alternating with the peer's")
      ("operators", option(o.operators, "true|false"), "also where the time goes, by operation, beside what this CPU or GPU can do")
      ("memory-check", option(o.memory_check, "NAME"), "when memory will not suffice: refuse to start; warn, and start all the same")
      ("json", option(o.json, "FILE"), "write the figures there")
      ("python", option(o.peer.python, "NAME"),
       "a Python with PyTorch to compare with (one rank only); auto: python3 if it has it; none: no comparison")
      ("peer-script", option(o.peer.script, "FILE"), "the peer's program")
      ("peer-timeout", option(o.peer.limit, "SECONDS"), "that the peer may take to start, or for a round")
      ("compiled-peer", option(o.peer.compiled, "true|false"), "the peer uses torch.compile");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  GptConfig config;
  world.everywhere([&] {
    config = bench_config(o.preset, o.context, o.vocabulary);
    check(o, world.size());
    if (world.is_root()) check_output_file("json", o.json);
  });
  world.set_layout({});
  measure(world, o, config);
  return ExitCode::finished;
}

}  // namespace gpt
