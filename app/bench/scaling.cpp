#include "bench/scaling.hpp"

#include "base/error.hpp"
#include "bench/byte_size.hpp"
#include "bench/commands.hpp"
#include "bench/output_file.hpp"
#include "bench/plan_name.hpp"
#include "model/precision.hpp"
#include "train/comm_plan.hpp"
#include "train/threads.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

struct Options {
  std::string kind = "both";
  std::string ranks;
  std::string preset = "gpt2";
  int64_t context = 64;
  int64_t vocabulary = 50257;
  int64_t micro_batch = 4;
  int64_t global_batch = 0;
  int64_t threads = 1;
  std::string precision = "fp32";
  int64_t steps = 3, rounds = 5;
  TrainOptions train = fixed_plan();
  std::string json, plot;
};

/// Powers of two, and all.
std::vector<int> ranks_of(const Options& options, int size) {
  std::vector<int> ranks;
  if (options.ranks.empty()) {
    for (int n = 1; n < size; n *= 2) ranks.push_back(n);
    ranks.push_back(size);
    return ranks;
  }
  for (const std::string& text : split_list("ranks", options.ranks)) {
    int n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    validate(error == std::errc() && end == text.data() + text.size() && n >= 1 && n <= size,
             "--ranks {}: use numbers from 1 to {}, as many as were started", options.ranks, size);
    ranks.push_back(n);
  }
  validate(std::ranges::is_sorted(ranks), "--ranks {}: give them from few to many", options.ranks);
  return ranks;
}

/// @throws Error(usage)
ScalingBench bench_of(const Options& options, int size) {
  validate(options.kind == "weak" || options.kind == "strong" || options.kind == "both",
           "--kind {}: use weak, strong or both", options.kind);
  validate(options.micro_batch >= 1, "--micro-batch {}: use 1 or more", options.micro_batch);
  validate(options.steps >= 1 && options.rounds >= 1, "--steps {} --rounds {}: use positive numbers",
           options.steps, options.rounds);
  validate(options.threads >= 1, "--threads {}: use 1 or more", options.threads);
  check_threads(options.threads);
  check_fixed_plan(options.train);
  ScalingBench bench{
      .preset = options.preset,
      .config = bench_config(options.preset, options.context, options.vocabulary),
      .kinds = {},
      .ranks = ranks_of(options, size),
      .micro_batch = options.micro_batch,
      .global_batch = options.global_batch > 0 ? options.global_batch : options.micro_batch * size,
      .threads = static_cast<int>(options.threads),
      .type = precision_named(options.precision),
      .plan = comm_plan(options.train),
      .plan_name = {},
      .bucket_bytes = options.train.bucket_bytes(),
      .sharded = options.train.zero != "0",
      .steps = options.steps,
      .rounds = options.rounds};
  if (options.kind != "strong") bench.kinds.push_back(ScalingKind::weak);
  if (options.kind != "weak") bench.kinds.push_back(ScalingKind::strong);
  validate(options.global_batch >= 0 && (options.kind == "weak" || bench.global_batch >= bench.ranks.back()),
           "--global-batch {}: use {} or more, one sequence a rank, or 0 for --micro-batch on all ranks",
           options.global_batch, bench.ranks.back());
  return bench;
}

/// @throws Error(usage) where the figures could not be written or drawn once they are measured
void check_outputs(const Options& options) {
  check_output_file("json", options.json);
  check_output_file("plot", options.plot);
  if (!options.plot.empty()) require_gnuplot(options.plot);
}

/// Names the plan, and sees to it that it can be followed on each number of ranks.
/// @throws Error(usage)
void fit_plan(ScalingBench& bench, const std::vector<std::string>& node_of_rank) {
  const int64_t nodes = nodes_of_first(node_of_rank, bench.ranks.back());
  const PlanInEffect effect = plan_in_effect(bench.plan, DType::f32, true, nodes);
  bench.plan_name = effect.name;
  if (bench.sharded)
    bench.plan_name += bench.plan.sharding == Sharding::node ? ", ZeRO-1 in the node" : ", ZeRO-1";
  else
    bench.plan = effect.plan;  // divided parameters travel as --inter says
  if (bench.plan.reduction != Reduction::hierarchical) return;
  for (const int ranks : bench.ranks) {
    const int64_t some = nodes_of_first(node_of_rank, ranks);
    const InterWay& way = way_of(bench.plan.inter);
    validate(way.fits(some),
             "--inter {} needs {}, but the first {} ranks are on {}: use --inter ring, or other "
             "--ranks",
             way.name, way.needs, ranks, some);
  }
}

}  // namespace

ExitCode bench_scaling(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line(
      "gpt_bench scaling: training steps on the first 1, 2, 4, ... of the ranks of mpirun or srun, in "
      "turns.\n"
      "Columns: docs/benchmarks.md.");
  // clang-format off
  line.group("Work")
      ("kind", option(o.kind, "NAME"), "weak (the batch of a rank stays), strong (that of the job), both")
      ("ranks", option(o.ranks, "N,..."), "how many; none: powers of two and all")
      ("preset", option(o.preset, "NAME"), "model")
      ("context", option(o.context, "N"), "positions a sequence")
      ("vocab", option(o.vocabulary, "N"), "tokens")
      ("micro-batch", option(o.micro_batch, "N"), "sequences of a rank; strong: at a time, at most")
      ("global-batch", option(o.global_batch, "N"), "strong: sequences a step; 0: --micro-batch on all ranks")
      ("threads", option(o.threads, "N"), "a rank")
      ("precision", option(o.precision, "NAME"), "of activations and weights in matrix products: fp32, bf16");
  line.group("Communication")
      ("reduction", option(o.train.reduction, "NAME"), "flat, hierarchical")
      ("inter", option(o.train.inter, "NAME"), "hierarchical, between nodes: mpi, ring, halving, direct")
      ("wire", option(o.train.wire, "TYPE"), "fp32; bf16; fp32,bf16 (in the node, between nodes)")
      ("zero", option(o.train.zero, "NAME"), "optimizer state: 0 all on each rank; 1 divided over ranks; node: in a node")
      ("bucket-mb", option(o.train.bucket_mb, "MIB"), "gradients reduced at a time")
      ("node-layout", option(o.train.node_layout, "LAYOUT"),
       "pretend nodes: '3,1' ranks a node; '@0,1,0,1' a node a rank");
  line.group("Measuring")
      ("steps", option(o.steps, "N"), "of each kind in a round")
      ("rounds", option(o.rounds, "N"), "in turns over all rank counts")
      ("json", option(o.json, "FILE"), "write the figures there")
      ("plot", option(o.plot, "FILE"), "draw them there, as SVG, with gnuplot");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  ScalingBench bench;
  world.everywhere([&] {
    bench = bench_of(o, world.size());
    if (world.is_root()) check_outputs(o);
  });
  world.set_layout({o.train.node_layout});
  const std::vector<std::string> node_of_rank = world.gather(std::to_string(world.node_index()));
  world.everywhere([&] { fit_plan(bench, node_of_rank); });
  const ThreadChoice choice = choose_threads(world, bench.threads);
  for (const std::string& warning : thread_warnings(world, choice))
    if (world.is_root()) fmt::print(stderr, "gpt_bench: warning: {}\n", warning);
  warn_of_precision(world, bench.type);
  const std::vector<ScalingPoint> points = measure_scaling(world, bench);
  world.everywhere([&] {
    if (!world.is_root()) return;
    print_scaling(bench, points);
    if (!o.json.empty()) write_json(o.json, scaling_json(bench, points));
    if (!o.plot.empty()) plot_scaling(o.plot, points);
  });
  return ExitCode::finished;
}

}  // namespace gpt
