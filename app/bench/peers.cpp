#include "base/error.hpp"
#include "base/notice.hpp"
#include "bench/byte_size.hpp"
#include "bench/commands.hpp"
#include "bench/output_file.hpp"
#include "bench/own_step.hpp"
#include "bench/peer_arguments.hpp"
#include "bench/peer_process.hpp"
#include "bench/peers_report.hpp"
#include "bench/progress.hpp"
#include "train/threads.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

struct Options {
  std::string works = "gpt2:4x256,gpt2:4x64,char:16x256,char-cpu:12x64";
  std::string precisions = "fp32,bf16";
  std::string peers = "auto";
  int64_t threads = 0;
  int64_t steps = 0;
  int64_t rounds = 5;
  std::string python = "python3";
  std::string scripts = "tests/peers";
  double peer_timeout = Peer{}.limit;
  std::string json;
};

const std::vector<std::string> all_kinds = {"eager", "compiled", "jax"};

/// @throws Error(usage)
Peer peer_of(const std::string& kind, const Options& options) {
  validate(std::ranges::count(all_kinds, kind) == 1, "--peers {}: use auto, or some of eager,compiled,jax",
           kind);
  if (kind == "jax")
    return {.python = options.python,
            .script = options.scripts + "/jax_step.py",
            .library = "JAX",
            .module = "jax",
            .limit = options.peer_timeout};
  return {.python = options.python,
          .script = options.scripts + "/torch_step.py",
          .compiled = kind == "compiled",
          .limit = options.peer_timeout};
}

struct NamedPeer {
  std::string kind;
  Peer peer;
};

/// The peers that are asked for; of all, with `auto`, those that the Python has.
/// @throws Error(usage) if one that was named cannot be measured, or none
std::vector<NamedPeer> choose_peers(const Options& options) {
  const bool automatic = options.peers == "auto";
  std::vector<NamedPeer> chosen;
  std::map<std::string, std::string> faults;  // by module: to import one takes seconds
  std::string why_none;
  for (const std::string& kind : automatic ? all_kinds : split_list("peers", options.peers)) {
    const Peer peer = peer_of(kind, options);
    if (!faults.contains(peer.module)) {
      const std::string fault = faults[peer.module] = fault_of(peer);
      validate(automatic || fault.empty(), "--peers {}: {}; --python names another Python", kind, fault);
      if (why_none.find(fault) == std::string::npos) why_none += (why_none.empty() ? "" : ", ") + fault;
    }
    if (faults[peer.module].empty()) chosen.push_back({kind, peer});
  }
  validate(!chosen.empty(),
           "nothing to compare with: {}; name a Python that has PyTorch or JAX with --python", why_none);
  if (!why_none.empty()) notice(fmt::format("notice: {}: measured without it", why_none));
  return chosen;
}

/// @throws Error(usage)
std::vector<PeerWork> works_of(const Options& options) {
  validate(options.steps >= 0 && options.rounds >= 1, "--steps {} --rounds {}: use positive numbers",
           options.steps, options.rounds);
  check_peer_limit(options.peer_timeout);
  check_threads(options.threads);
  std::vector<PeerWork> works;
  for (const std::string& work : split_list("works", options.works))
    for (const std::string& precision : split_list("precision", options.precisions))
      works.push_back(parse_work(work, precision));
  return works;
}

/// So many that a round takes about a second.
int64_t steps_of_a_second(double seconds) {
  return static_cast<int64_t>(std::clamp(std::ceil(1.0 / seconds), 2.0, 50.0));
}

class Measurement {
public:
  Measurement(const World& world, const Options& options, std::vector<NamedPeer> peers, int threads,
              size_t works)
      : world_(world),
        options_(options),
        peers_(std::move(peers)),
        threads_(threads),
        progress_(world, "peers", (options.rounds + 1) * static_cast<int64_t>(works)) {}

  PeerRow operator()(const PeerWork& work) {
    PeerRow row{.work = work, .steps = options_.steps, .own = {}, .peers = {}, .called = {}};
    OwnStep own(world_, {.config = work.config,
                         .sequences = work.batch,
                         .micro_batch = work.batch,
                         .global_batch = work.batch,
                         .threads = threads_,
                         .plan = {},
                         .type = work.type});
    own.round(1);  // first touch and creation of primitives
    if (row.steps == 0) row.steps = steps_of_a_second(own.round(1).front());
    std::map<std::string, std::unique_ptr<PeerProcess>> peers = start(row);
    progress_(fmt::format("{}: peers are ready", work.name()));
    for (int64_t round = 0; round < options_.rounds; ++round) {
      row.own.add(own.round(row.steps));
      std::erase_if(peers, [&](const auto& entry) { return !goes_on(row, entry.first, *entry.second); });
      progress_(fmt::format("{}: round {}", work.name(), round + 1));
    }
    return row;
  }

private:
  /// A round of a peer. One that ends counts for nothing in this row: its best time may have been still to
  /// come.
  static bool goes_on(PeerRow& row, const std::string& kind, PeerProcess& peer) {
    try {
      row.peers[kind].add(peer.round());
      return true;
    } catch (const Error& error) {
      notice(fmt::format("notice: {}: {} is left out: {}", row.work.name(), kind, error.what()));
      row.peers.erase(kind);
      return false;
    }
  }

  /// Those that begin with the work: torch.compile fails where it finds no compiler.
  std::map<std::string, std::unique_ptr<PeerProcess>> start(PeerRow& row) {
    std::map<std::string, std::unique_ptr<PeerProcess>> started;
    for (const auto& [kind, peer] : peers_) {
      try {
        auto step = std::make_unique<PeerProcess>(
            peer, training_arguments(row.work.config, row.work.type, row.work.batch, row.steps, threads_,
                                     peer.compiled));
        row.called[kind] = step->name();
        started[kind] = std::move(step);
      } catch (const Error& error) {
        notice(fmt::format("notice: {}: {} is left out: {}", row.work.name(), kind, error.what()));
      }
    }
    return started;
  }

  const World& world_;
  const Options& options_;
  const std::vector<NamedPeer> peers_;
  const int threads_;
  Progress progress_;
};

/// @throws Error(failed), once all is measured, if there was nothing to compare some work with
void measure(const World& world, const Options& options, const std::vector<PeerWork>& works,
             const std::vector<NamedPeer>& peers) {
  if (std::ranges::find(works, DType::bf16, &PeerWork::type) != works.end())
    warn_of_precision(world, DType::bf16);
  const int threads = choose_threads(world, static_cast<int>(options.threads)).threads;
  std::vector<std::string> kinds;
  for (const NamedPeer& peer : peers) kinds.push_back(peer.kind);
  fmt::print("peers: {} thread{}, dropout 0, least of {} rounds in turns\n", threads, threads > 1 ? "s" : "",
             options.rounds);
  print_peers_head(kinds);
  nlohmann::json rows = nlohmann::json::array();
  std::map<std::string, std::string> called;
  std::string alone;
  Measurement measurement(world, options, peers, threads, works.size());
  for (const PeerWork& work : works) {
    const PeerRow row = measurement(work);
    print_peers_row(kinds, row);
    rows.push_back(peer_row_json(row));
    called.insert(row.called.begin(), row.called.end());
    if (row.peers.empty()) alone += (alone.empty() ? "" : ", ") + work.name();
  }
  for (const auto& [kind, name] : called) fmt::print("{}: {}\n", kind, name);
  std::fflush(stdout);
  if (!options.json.empty())
    write_json(options.json,
               {{"benchmark", "peers"}, {"threads", threads}, {"rounds", options.rounds}, {"results", rows}});
  validate(alone.empty(), ExitCode::failed, "no peer could be measured for {}", alone);
}

}  // namespace

ExitCode bench_peers(World& world, const Arguments& arguments) {
  Options o;
  CommandLine line(
      "gpt_bench peers: training steps of several models beside PyTorch's and JAX's, in turns, as a table.\n"
      "Runs alone. docs/benchmarks.md explains the table.");
  // clang-format off
  line.group("Options")
      ("works", option(o.works, "PRESET:BxT,..."), "models, with B sequences of T tokens a step")
      ("precision", option(o.precisions, "NAME,..."), "fp32, bf16")
      ("peers", option(o.peers, "NAME,..."),
       "eager and compiled (PyTorch without and with torch.compile), jax; auto: all that the Python has")
      ("threads", option(o.threads, "N"), "of each program; 0: one for each core that may be used")
      ("steps", option(o.steps, "N"), "a round; 0: so many as gpt_mpi takes in a second, 2 to 50")
      ("rounds", option(o.rounds, "N"), "rounds in which every program has its turn")
      ("python", option(o.python, "NAME"), "a Python with PyTorch or JAX")
      ("peer-scripts", option(o.scripts, "FOLDER"), "where torch_step.py and jax_step.py are")
      ("peer-timeout", option(o.peer_timeout, "SECONDS"), "that a peer may take to start, or for a round")
      ("json", option(o.json, "FILE"), "write the figures there");
  // clang-format on
  if (!parse(line, arguments, world)) return ExitCode::finished;
  std::vector<PeerWork> works;
  std::vector<NamedPeer> peers;
  world.everywhere([&] {
    validate(world.size() == 1, "gpt_bench peers compares on one rank: start it without mpirun");
    works = works_of(o);
    check_output_file("json", o.json);
    peers = choose_peers(o);
  });
  world.set_layout({});
  measure(world, o, works, peers);
  return ExitCode::finished;
}

}  // namespace gpt
