#include "base/error.hpp"
#include "base/notice.hpp"
#include "bench/commands.hpp"
#include "bench/own_step.hpp"
#include "bench/peer_step.hpp"
#include "bench/progress.hpp"
#include "bench/times.hpp"
#include "train/threads.hpp"

#include <optional>

namespace gpt {
namespace {

struct Options {
  std::string preset = "gpt2";
  int64_t context = 64;
  int64_t global_batch = 4;
  int64_t vocabulary = 50257;
  int64_t threads = 0;
  int64_t steps = 3;
  int64_t rounds = 5;
  Peer peer;
};

/// @throws Error(usage)
void check(const Options& options, int ranks) {
  validate(options.global_batch >= ranks, "--global-batch {}: use {} or more, one sequence a rank",
           options.global_batch, ranks);
  validate(options.steps >= 1 && options.rounds >= 1, "--steps {} --rounds {}: use positive numbers",
           options.steps, options.rounds);
  check_threads(options.threads);
}

void print_row(const std::string& name, const Times& times, int64_t tokens) {
  fmt::print("  {:<28} {:>9.1f} ms least {:>9.1f} ms median {:>10.0f} tokens/s\n", name, times.least() * 1e3,
             times.median() * 1e3, static_cast<double>(tokens) / times.least());
}

/// The peer that is asked for; none is asked for by --python none, and by auto where python3 has no PyTorch.
/// @throws Error(usage) if a Python that was named does not serve
std::optional<Peer> chosen_peer(const World& world, Peer peer) {
  if (peer.python == "none" || world.size() > 1) return std::nullopt;
  const bool is_named = peer.python != "auto";
  if (!is_named) peer.python = "python3";
  const std::string fault = fault_of(peer);
  if (fault.empty()) return peer;
  validate(!is_named, "--python: {}: name one with PyTorch, or none to time gpt_mpi alone", fault);
  notice(fmt::format("notice: {}: gpt_mpi is timed alone; --python names another Python", fault));
  return std::nullopt;
}

/// Step times, alternating with a peer's where there is one.
void measure(const World& world, const Options& options, const GptConfig& config) {
  const std::optional<Peer> chosen = chosen_peer(world, options.peer);
  const ThreadChoice choice = choose_threads(world, static_cast<int>(options.threads));
  const int64_t sequences = part_of(options.global_batch, world.size(), world.rank()).size();
  OwnStep own(world, {.config = config,
                      .sequences = sequences,
                      .micro_batch = sequences,
                      .global_batch = options.global_batch,
                      .threads = choice.threads,
                      .plan = {}});
  std::optional<PeerStep> peer;
  if (chosen) peer.emplace(*chosen, config, options.global_batch, options.steps, choice.threads);

  own(Reducing::overlapped);  // first touch and creation of primitives
  Times own_times, peer_times;
  Progress progress(world, "step", options.rounds);
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (int64_t step = 0; step < options.steps; ++step) own_times.add(own(Reducing::overlapped).seconds);
    if (peer) peer_times.add(peer->round());
    progress(fmt::format("{:.1f} ms a step", own_times.all.back() * 1e3));
  }
  if (!world.is_root()) return;
  const int64_t tokens = options.global_batch * options.context;
  fmt::print("step: {}, batch {} x {}, fp32, {} rank{}, {} thread{} each\n", options.preset,
             options.global_batch, options.context, world.size(), world.size() > 1 ? "s" : "", choice.threads,
             choice.threads > 1 ? "s" : "");
  print_row("gpt_mpi", own_times, tokens);
  if (!peer) return;
  print_row(peer->name(), peer_times, tokens);
  fmt::print("  ratio of the least times: {:.2f}\n", peer_times.least() / own_times.least());
}

}  // namespace

ExitCode bench_step(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line("gpt_bench step: time of training steps, beside PyTorch's");
  // clang-format off
  line.group("Options")
      ("preset", option(o.preset, "NAME"), "model")
      ("context", option(o.context, "N"), "positions a sequence")
      ("global-batch", option(o.global_batch, "N"), "sequences a step")
      ("vocab", option(o.vocabulary, "N"), "tokens")
      ("threads", option(o.threads, "N"), "a rank; 0: its share of the cores")
      ("steps", option(o.steps, "N"), "steps a round")
      ("rounds", option(o.rounds, "N"), "rounds, alternating with the peer's")
      ("python", option(o.peer.python, "NAME"),
       "a Python with PyTorch to compare with (one rank only); auto: python3 if it has it; none: no comparison")
      ("peer-script", option(o.peer.script, "FILE"), "the peer's program")
      ("compiled-peer", option(o.peer.compiled, "true|false"), "the peer uses torch.compile");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  GptConfig config;
  world.everywhere([&] {
    config = bench_config(o.preset, o.context, o.vocabulary);
    check(o, world.size());
  });
  world.set_layout({});
  measure(world, o, config);
  return ExitCode::finished;
}

}  // namespace gpt
