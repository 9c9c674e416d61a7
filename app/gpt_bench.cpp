#include "base/philox.hpp"
#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/adamw.hpp"
#include "train/reducer.hpp"
#include "train/step_scalars.hpp"
#include "train/threads.hpp"
#include "train/versions.hpp"

#include <algorithm>
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>
#include <boost/program_options.hpp>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

namespace {

namespace po = boost::program_options;
namespace bp = boost::process;

struct Options {
  std::string what;
  std::string preset = "gpt2";
  int64_t context = 64;
  int64_t global_batch = 4;
  int64_t vocabulary = 50257;
  int64_t threads = 0;
  int64_t steps = 3;
  int64_t rounds = 5;
  std::string python = "python3";
  std::string peer_script = "tests/peers/torch_step.py";
  bool compiled_peer = false;
};

/// Training steps of this program on random tokens.
class OwnStep {
public:
  OwnStep(const gpt::World& world, const gpt::GptConfig& config, int64_t sequences, int64_t global_batch,
          int threads)
      : device_(gpt::make_cpu_device(threads)),
        comm_(gpt::make_mpi_comm(world.world())),
        layout_(config),
        queue_(device_->make_queue()),
        params_(*device_, gpt::DType::f32, {layout_.size()}),
        gradients_(*device_, gpt::DType::f32, {layout_.size()}),
        tokens_(*device_, gpt::DType::i32, {sequences, config.context}),
        model_(config, *device_, sequences,
               {.weights = params_, .matrices = params_, .gradients = gradients_}),
        reducer_(layout_, *comm_, *device_, gradients_, int64_t{25} << 20),
        optimizer_(layout_, *device_, params_, gradients_, {}),
        scalars_(*device_),
        scale_(1.0F / static_cast<float>(global_batch * config.context)) {
    gpt::initialize_weights(layout_, config, 1, params_);
    int32_t* const tokens = tokens_->data<int32_t>();
    for (int64_t i = 0; i < tokens_->size(); ++i)
      tokens[i] = static_cast<int32_t>(gpt::random_bits(1, static_cast<uint64_t>(i)) %
                                       static_cast<uint64_t>(config.vocabulary));
  }

  /// Seconds of one step.
  double operator()() {
    const auto start = std::chrono::steady_clock::now();
    scalars_.reset(*queue_);
    reducer_.begin_micro(true, *queue_);
    model_.train({.inputs = tokens_, .targets = tokens_}, scalars_.device().flat({0, 1}), {.scale = scale_},
                 reducer_, *queue_);
    reducer_.finish(scalars_.device(), 1.0, *queue_);
    optimizer_.step(step_++, 1e-4, scalars_.device(), {{0, layout_.size()}}, *queue_);
    queue_->synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  std::unique_ptr<gpt::Device> device_;
  std::unique_ptr<gpt::Comm> comm_;
  gpt::Layout layout_;
  std::unique_ptr<gpt::Queue> queue_;
  gpt::TensorBuffer params_, gradients_, tokens_;
  gpt::Gpt model_;
  gpt::Reducer reducer_;
  gpt::AdamW optimizer_;
  gpt::StepScalars scalars_;
  float scale_;
  int64_t step_ = 0;
};

/// The same work in PyTorch, in a process of its own that computes only when asked.
class PeerStep {
public:
  PeerStep(const Options& options, const gpt::GptConfig& config, int threads) {
    std::vector<std::string> arguments = {options.python, options.peer_script};
    const auto add = [&](const char* name, int64_t value) {
      arguments.push_back(std::string("--") + name);
      arguments.push_back(std::to_string(value));
    };
    add("layers", config.layers);
    add("heads", config.heads);
    add("width", config.width);
    add("context", config.context);
    add("vocabulary", config.vocabulary);
    add("batch", options.global_batch);
    add("threads", threads);
    add("steps", options.steps);
    if (options.compiled_peer) arguments.emplace_back("--compile");
    child_ = bp::child("/usr/bin/env", bp::args(arguments), bp::std_in<to_peer_, bp::std_out> from_peer_);
    name_ = read().at("peer").get<std::string>();
  }

  const std::string& name() const { return name_; }

  std::vector<double> round() {
    to_peer_ << std::endl;
    return read().get<std::vector<double>>();
  }

private:
  nlohmann::json read() {
    std::string line;
    gpt::validate(static_cast<bool>(std::getline(from_peer_, line)), gpt::ExitCode::failed,
                  "the peer ended: does this Python have PyTorch? Name another with --python");
    return nlohmann::json::parse(line);
  }

  bp::opstream to_peer_;
  bp::ipstream from_peer_;
  bp::child child_;
  std::string name_;
};

struct Times {
  std::vector<double> all;

  void add(const std::vector<double>& round) { all.insert(all.end(), round.begin(), round.end()); }
  double least() const { return *std::ranges::min_element(all); }
  double median() const {
    std::vector<double> sorted = all;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

void print_row(const std::string& name, const Times& times, int64_t tokens) {
  fmt::print("  {:<28} {:>9.1f} ms least {:>9.1f} ms median {:>10.0f} tokens/s\n", name, times.least() * 1e3,
             times.median() * 1e3, static_cast<double>(tokens) / times.least());
}

/// The model to measure. @throws Error(usage)
gpt::GptConfig checked_config(const Options& options, int ranks) {
  const auto preset = std::ranges::find(gpt::presets(), options.preset, &gpt::Preset::name);
  gpt::validate(preset != gpt::presets().end(), "--preset {}: 'gpt_mpi --help' lists the presets",
                options.preset);
  gpt::GptConfig config = preset->config;
  config.context = options.context;
  config.vocabulary = options.vocabulary;
  config.dropout = 0.0F;
  gpt::validate_config(config);
  gpt::validate(options.global_batch >= ranks, "--global-batch {}: use {} or more, one sequence a rank",
                options.global_batch, ranks);
  gpt::validate(options.steps >= 1 && options.rounds >= 1, "--steps {} --rounds {}: use positive numbers",
                options.steps, options.rounds);
  gpt::validate(options.threads >= 0 && options.threads <= 4096,
                "--threads {}: use 0 (automatic) or up to 4096", options.threads);
  return config;
}

/// Step times, alternating with a peer's where there is one.
int bench_step(gpt::World& world, const Options& options) {
  gpt::GptConfig config;
  world.everywhere([&] { config = checked_config(options, world.size()); });

  const gpt::ThreadChoice choice = choose_threads(world, static_cast<int>(options.threads));
  OwnStep own(world, config, gpt::part_of(options.global_batch, world.size(), world.rank()).size(),
              options.global_batch, choice.threads);
  std::optional<PeerStep> peer;
  if (world.is_root() && options.python != "none" && world.size() == 1)
    peer.emplace(options, config, choice.threads);

  own();  // first touch and creation of primitives
  Times own_times, peer_times;
  for (int64_t round = 0; round < options.rounds; ++round) {
    std::vector<double> times;
    for (int64_t step = 0; step < options.steps; ++step) times.push_back(own());
    own_times.add(times);
    if (peer) peer_times.add(peer->round());
  }
  if (!world.is_root()) return 0;
  const int64_t tokens = options.global_batch * options.context;
  fmt::print("step: {}, batch {} x {}, fp32, {} rank{}, {} thread{} each\n", options.preset,
             options.global_batch, options.context, world.size(), world.size() > 1 ? "s" : "", choice.threads,
             choice.threads > 1 ? "s" : "");
  print_row("gpt_mpi", own_times, tokens);
  if (!peer) return 0;
  print_row(peer->name(), peer_times, tokens);
  fmt::print("  ratio of the least times: {:.2f}\n", peer_times.least() / own_times.least());
  return 0;
}

int run(gpt::World& world, int argc, char** argv) {
  Options o;
  po::options_description description("Options");
  const auto value = [](auto& target) { return po::value(&target)->default_value(target); };
  // clang-format off
  description.add_options()
      ("preset", value(o.preset), "model")
      ("context", value(o.context), "positions a sequence")
      ("global-batch", value(o.global_batch), "sequences a step")
      ("vocab", value(o.vocabulary), "tokens")
      ("threads", value(o.threads), "a rank; 0: its share of the cores")
      ("steps", value(o.steps), "steps a round")
      ("rounds", value(o.rounds), "rounds, alternating with the peer's")
      ("python", value(o.python), "a Python with PyTorch to compare with (one rank only); none: no comparison")
      ("peer-script", value(o.peer_script), "the peer's program")
      ("compiled-peer", value(o.compiled_peer), "the peer uses torch.compile")
      ("help", po::bool_switch(), "this text")
      ("version", po::bool_switch(), "versions of the program and its libraries");
  // clang-format on
  po::options_description all;
  all.add(description).add_options()("what", po::value(&o.what));
  po::positional_options_description positional;
  positional.add("what", 1);
  po::variables_map values;
  constexpr int style = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                        po::command_line_style::long_allow_next;
  world.everywhere([&] {
    try {
      po::store(po::command_line_parser(argc, argv).options(all).style(style).positional(positional).run(),
                values);
      po::notify(values);
    } catch (const po::error& error) {
      throw gpt::Error(fmt::format("{}; 'gpt_bench --help' lists the options", error.what()),
                       gpt::ExitCode::usage);
    }
  });
  if (values["help"].as<bool>() || values["version"].as<bool>()) {
    if (world.is_root() && values["version"].as<bool>()) fmt::print("{}", gpt::version_text("gpt_bench"));
    if (world.is_root() && values["help"].as<bool>())
      std::cout << "gpt_bench step: time of training steps, beside PyTorch's\n\n" << description;
    return 0;
  }
  world.everywhere([&] { gpt::validate(o.what == "step", "'{}': say what to measure: step", o.what); });
  return bench_step(world, o);
}

}  // namespace

int main(int argc, char** argv) { return gpt::run_program(argc, argv, run); }
