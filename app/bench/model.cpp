#include "base/error.hpp"
#include "bench/byte_size.hpp"
#include "bench/commands.hpp"
#include "bench/model_inputs.hpp"
#include "bench/model_report.hpp"
#include "bench/output_file.hpp"
#include "bench/own_step.hpp"
#include "bench/progress.hpp"
#include "train/comm_plan.hpp"
#include "train/threads.hpp"

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace gpt {
namespace {

constexpr double bits = 8.0 / 1e9;  // gigabits of a byte

struct Options {
  std::string nodes = "1,2,4,8,64,1024";
  int64_t ranks_per_node = 8;
  double intra_gbps = 0, inter_gbps = 0, intra_latency_us = -1, latency_us = -1;
  std::vector<std::string> fit;
  double fit_gbps = 0;
  std::string implementation;
  std::string preset = "gpt2";
  int64_t context = 64, vocabulary = 50257;
  int64_t parameters = 0, layers = 32;
  int64_t micro_batch = 4, threads = 0;
  double step_ms = 0, optimizer_ms = 0;
  std::string step_from;
  double thread_ms = -1;
  TrainOptions train = fixed_plan();
  std::string json;
};

std::vector<int64_t> node_counts(const std::string& text) {
  constexpr int64_t most = 1'000'000;
  std::vector<int64_t> counts;
  for (const std::string& part : split_list("nodes", text)) {
    int64_t count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    validate(error == std::errc() && end == part.data() + part.size() && count >= 1 && count <= most,
             "--nodes {}: use numbers from 1 to {}", text, most);
    counts.push_back(count);
  }
  return counts;
}

void check_number(const char* name, double value, double least) {
  validate(std::isfinite(value) && value >= least && value < 1e12, "--{} {}: use a number from {} on", name,
           value, least);
}

/// @throws Error(usage)
void check(const Options& o) {
  validate(o.ranks_per_node >= 1 && o.ranks_per_node <= 1024, "--ranks-per-node {}: use 1 to 1024",
           o.ranks_per_node);
  check_number("intra-gbps", o.intra_gbps, 0);
  check_number("inter-gbps", o.inter_gbps, 0);
  check_number("intra-latency-us", o.intra_latency_us, -1);
  check_number("latency-us", o.latency_us, -1);
  check_number("fit-gbps", o.fit_gbps, 0);
  check_number("step-ms", o.step_ms, 0);
  check_number("optimizer-ms", o.optimizer_ms, 0);
  check_number("thread-ms", o.thread_ms, -1);
  validate(o.optimizer_ms <= o.step_ms, "--optimizer-ms {}: it is a part of --step-ms {}", o.optimizer_ms,
           o.step_ms);
  validate(o.micro_batch >= 1 && o.parameters >= 0 && o.layers >= 1,
           "--micro-batch {} --parameters {} --layers {}: use positive numbers", o.micro_batch, o.parameters,
           o.layers);
  validate(o.parameters == 0 || o.step_ms > 0, "--parameters {}: say with --step-ms what a step takes alone",
           o.parameters);
  validate(o.fit_gbps == 0 || (!o.fit.empty() && o.inter_gbps > 0),
           "--fit-gbps {}: it is the rate of the links in --fit, to be compared with --inter-gbps",
           o.fit_gbps);
  check_threads(o.threads);
  check_fixed_plan(o.train);
}

/// Mean moments of a few steps on this machine, on one rank.
StepShape measured_here(const World& world, const Options& o, const GptConfig& config) {
  constexpr int steps = 5;
  const ThreadChoice threads = choose_threads(world, static_cast<int>(o.threads));
  OwnStep step(world, {.config = config,
                       .sequences = o.micro_batch,
                       .micro_batch = o.micro_batch,
                       .global_batch = o.micro_batch,
                       .threads = threads.threads,
                       .plan = {}});
  Progress progress(world, "model", 1 + steps);
  step(Reducing::none);
  progress(fmt::format("a first step of {} on this machine", o.preset));
  std::optional<OwnStep::Took> least;
  for (int i = 0; i < steps; ++i) {
    OwnStep::Took took = step(Reducing::none);
    progress(fmt::format("a step of {} on this machine: {:.1f} ms", o.preset, took.seconds * 1e3));
    if (!least || took.seconds < least->seconds) least = std::move(took);
  }
  const OwnStep::Took& best = *least;
  const Layout layout(config);
  StepShape shape{.gradients = {}, .compute = best.backward, .optimizer = best.seconds - best.backward};
  for (const int64_t section : layout.backward_order()) {
    const auto at = static_cast<size_t>(section);
    shape.gradients.push_back({layout.sections()[at].range, best.ready[at]});
  }
  return shape;
}

std::string describe(const char* what, const Link& link) {
  return fmt::format("{}: {:.1f} us a message, {:.3f} Gbit/s", what, link.latency * 1e6,
                     bits / link.seconds_per_byte);
}

/// Given ones before fitted ones before defaults: a fabric of 100 Gbit/s and 200 in the node.
Links choose_links(const Options& o) {
  Links links{.intra = {1e-6, bits / 200}, .inter = {5e-6, bits / 100}, .notes = {}};
  const auto override_intra = [&] {
    if (o.intra_gbps > 0) links.intra.seconds_per_byte = bits / o.intra_gbps;
    if (o.intra_latency_us >= 0) links.intra.latency = o.intra_latency_us * 1e-6;
  };
  override_intra();
  std::vector<MeasuredSums> files;
  for (const std::string& path : o.fit) files.push_back(read_comm_json(path, o.implementation));
  const FittedLinks fitted = fit_links(files, links.intra);
  if (fitted.intra) {
    links.intra = *fitted.intra;
    links.notes.push_back(describe("fitted, in the node", *fitted.intra) +
                          fmt::format(", error at most {:.1f} %", 100 * fitted.worst_intra));
  }
  if (fitted.inter) {
    links.inter = *fitted.inter;
    links.notes.push_back(describe("fitted, between nodes", *fitted.inter) +
                          fmt::format(", error at most {:.1f} %", 100 * fitted.worst_inter));
  }
  override_intra();
  if (o.fit_gbps > 0) {
    validate(fitted.inter.has_value(), "--fit-gbps {}: no file of --fit has several nodes", o.fit_gbps);
    links.inter.seconds_per_byte *= o.fit_gbps / o.inter_gbps;  // other links, as well used as those
  } else if (o.inter_gbps > 0) {
    links.inter.seconds_per_byte = bits / o.inter_gbps;
  }
  if (o.latency_us >= 0) links.inter.latency = o.latency_us * 1e-6;
  links.notes.push_back(describe("in the node, a rank", links.intra));
  links.notes.push_back(describe("between nodes, a node", links.inter));
  return links;
}

/// What is known of a step on so many ranks.
struct Steps {
  std::map<int64_t, MeasuredStep> measured;
  StepShape given;           ///< where none was measured
  int64_t given_tokens = 0;  ///< a rank and step, of the given one

  const MeasuredStep* at(int64_t ranks) const {
    const auto found = measured.find(ranks);
    return found == measured.end() ? nullptr : &found->second;
  }
};

Steps choose_steps(const World& world, const Options& o) {
  Steps steps{.measured = {}, .given = {}, .given_tokens = o.micro_batch * o.context};
  if (!o.step_from.empty()) {
    steps.measured = read_scaling_json(o.step_from);
    const MeasuredStep& most = steps.measured.rbegin()->second;
    steps.given = most.shape;
    steps.given_tokens = most.tokens;
    return steps;
  }
  const double compute = (o.step_ms - o.optimizer_ms) / 1e3;
  if (o.parameters > 0) {
    steps.given = {.gradients = ready_gradients(o.parameters, o.layers, compute), .compute = compute};
  } else {
    const GptConfig config = bench_config(o.preset, o.context, o.vocabulary);
    if (o.step_ms == 0.0) {
      steps.given = measured_here(world, o, config);
      return steps;
    }
    steps.given = {.gradients = ready_gradients(Layout(config), config, compute), .compute = compute};
  }
  steps.given.optimizer = o.optimizer_ms / 1e3;
  return steps;
}

Prediction predict(const Options& o, const Links& links, const Steps& steps, int64_t nodes) {
  Prediction prediction{.cluster = {.nodes = nodes,
                                    .ranks_per_node = o.ranks_per_node,
                                    .intra = links.intra,
                                    .inter = links.inter},
                        .step = {},
                        .measured = {}};
  const int64_t ranks = prediction.cluster.ranks();
  const MeasuredStep* const measured = steps.at(ranks);
  StepShape shape = measured != nullptr ? measured->shape : steps.given;
  shape.bucket_bytes = o.train.bucket_bytes();
  if (o.thread_ms >= 0) shape.thread = o.thread_ms / 1e3;
  prediction.step = predict_step(prediction.cluster, comm_plan(o.train), shape);
  const int64_t tokens = measured != nullptr ? measured->tokens : steps.given_tokens;
  prediction.tokens_per_second = static_cast<double>(tokens * ranks) / prediction.step.step;
  if (measured != nullptr) prediction.measured = measured->step;
  return prediction;
}

}  // namespace

ExitCode bench_model(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line(
      "gpt_bench model: what a step takes on many nodes, from the costs of messages and of a step alone.\n"
      "Formulas: docs/benchmarks.md.");
  // clang-format off
  line.group("Cluster")
      ("nodes", option(o.nodes, "N,..."), "how many")
      ("ranks-per-node", option(o.ranks_per_node, "N"), "on each")
      ("intra-gbps", option(o.intra_gbps, "GBIT/S"), "of a rank, inside the node; 0: fitted, or 200")
      ("inter-gbps", option(o.inter_gbps, "GBIT/S"), "of a node; 0: fitted, or 100")
      ("intra-latency-us", option(o.intra_latency_us, "US"), "of a message inside; below 0: fitted, or 1")
      ("latency-us", option(o.latency_us, "US"), "of a message between nodes; below 0: fitted, or 5")
      ("fit", list(o.fit, "FILE..."),
       "of gpt_bench comm --json: one node gives the links inside, several those between nodes")
      ("fit-gbps", option(o.fit_gbps, "GBIT/S"),
       "rate of the links in --fit: those of --inter-gbps are used as well as they were")
      ("implementation", option(o.implementation, "NAME"), "in --fit; none: the first hierarchical one");
  line.group("Step")
      ("preset", option(o.preset, "NAME"), "model")
      ("context", option(o.context, "N"), "positions a sequence")
      ("vocab", option(o.vocabulary, "N"), "tokens")
      ("parameters", option(o.parameters, "N"), "instead of a preset, with --layers; 0: the preset's")
      ("layers", option(o.layers, "N"), "equal parts of --parameters")
      ("micro-batch", option(o.micro_batch, "N"), "sequences of a rank")
      ("step-ms", option(o.step_ms, "MS"), "of a rank without communication; 0: measured now, on this machine")
      ("optimizer-ms", option(o.optimizer_ms, "MS"), "of these after communication")
      ("step-from", option(o.step_from, "FILE"),
       "of gpt_bench scaling --json: steps without communication, their tokens, and what to compare predictions "
       "with")
      ("threads", option(o.threads, "N"), "for measuring a step; 0: all cores")
      ("thread-ms", option(o.thread_ms, "MS"),
       "processor time of a computing core that communication takes; below 0: as in --step-from, or 0");
  line.group("Communication")
      ("reduction", option(o.train.reduction, "NAME"), "flat (a ring over all ranks), hierarchical")
      ("inter", option(o.train.inter, "NAME"), "hierarchical, between nodes: mpi, ring, halving, direct")
      ("wire", option(o.train.wire, "TYPE"), "fp32; bf16; fp32,bf16 (in the node, between nodes)")
      ("bucket-mb", option(o.train.bucket_mb, "MIB"), "gradients reduced at a time");
  line.group("Output")("json", option(o.json, "FILE"), "write the figures there");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  world.everywhere([&] {
    validate(world.size() == 1, "gpt_bench model computes on one rank: start it without mpirun");
    check(o);
    check_output_file("json", o.json);
  });
  world.set_layout({});

  std::vector<int64_t> nodes;
  Links links;
  world.everywhere([&] {
    nodes = node_counts(o.nodes);
    links = choose_links(o);
  });
  const Steps steps = choose_steps(world, o);
  std::vector<Prediction> predictions;
  for (const int64_t count : nodes) predictions.push_back(predict(o, links, steps, count));
  print_predictions(links, steps.given, o.train.bucket_mb, predictions);
  if (!o.json.empty()) write_json(o.json, predictions_json(links, predictions));
  return ExitCode::finished;
}

}  // namespace gpt
