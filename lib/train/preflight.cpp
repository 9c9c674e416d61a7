#include "train/preflight.hpp"

#include "base/fault.hpp"
#include "base/hash.hpp"
#include "base/signals.hpp"
#include "comm/comm_session.hpp"
#include "comm/nccl_session.hpp"
#include "comm/shared_error.hpp"
#include "model/layout.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint.hpp"
#include "train/console.hpp"
#include "train/memory_estimate.hpp"
#include "train/memory_limits.hpp"
#include "train/node_checkpoint_room.hpp"
#include "train/preflight_dataset.hpp"
#include "train/preflight_look.hpp"
#include "train/preflight_odd.hpp"
#include "train/preflight_report.hpp"
#include "train/start_point.hpp"
#include "train/threads.hpp"
#include "train/versions.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

namespace gpt {
namespace {

/// What the batch system calls this node, and scripts have to give it to leave the node out; else the host.
std::string node_name(const World& world) {
  const char* const slurm = std::getenv("SLURMD_NODENAME");
  return slurm != nullptr && *slurm != '\0' ? slurm : world.host();
}

/// Ranks and nodes by their names.
struct Places {
  std::vector<std::string> name_of_rank;
  std::vector<int> node_of_rank;
};

Places find_places(const World& world) {
  Places places{.name_of_rank = world.gather(node_name(world)), .node_of_rank = {}};
  for (const std::string& node : world.gather(std::to_string(world.node_index())))
    places.node_of_rank.push_back(std::stoi(node));
  return places;
}

std::vector<NodeReport> empty_rows(const World& world, const Places& places) {
  std::vector<NodeReport> rows(static_cast<size_t>(world.nodes()));
  for (size_t rank = 0; rank < places.node_of_rank.size(); ++rank) {
    NodeReport& row = rows[static_cast<size_t>(places.node_of_rank[rank])];
    if (row.ranks.empty()) row.name = places.name_of_rank[rank];
    row.ranks.push_back(static_cast<int>(rank));
  }
  return rows;
}

/// The executable, and every library as --version tells it.
Facts program_facts() {
  Facts facts = build_facts();
  std::istringstream lines(version_text("gpt_mpi"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, rest;
    words >> name >> std::ws;
    std::getline(words, rest);
    facts.emplace_back(name, rest);
  }
  return facts;
}

/// Nodes whose programs or libraries are not those of most ranks. The same on all ranks.
Findings find_other_programs(const World& world, const Places& places) {
  const Facts facts = program_facts();
  Findings findings = find_odd("program", "the hash of the executable", world.gather(facts.front().second),
                               places.node_of_rank);
  if (!findings.empty()) return findings;  // their facts may not even have the same names
  for (const auto& [name, value] : facts) {
    const Findings more = find_odd("program", name, world.gather(value), places.node_of_rank);
    findings.insert(findings.end(), more.begin(), more.end());
  }
  return findings;
}

/// As training would have them: with those of the checkpoint that it would go on from.
TrainOptions agree_on_options(const World& world, const OptionSource& source, const TrainOptions& typed) {
  Facts facts = option_facts(source.to_text(typed));
  facts.emplace_back("--resume", typed.resume);
  facts.emplace_back("--eval-only", typed.eval_only ? "true" : "false");
  compare_ranks(world, facts);
  std::string stored;
  world.everywhere([&] {
    if (!world.is_root()) return;
    const StartPoint start = choose_start(typed.resume, typed.out + "/checkpoints");
    if (!start.file.empty()) stored = read_checkpoint_header(start.file).configuration;
  });
  stored = world.broadcast(stored);
  TrainOptions options = typed;
  world.everywhere([&] {
    options = source.resolve(stored);
    validate_options(options);
  });
  return options;
}

/// An error in `work` on some rank names that rank's node.
void look_everywhere(const World& world, const Places& places, const std::function<void()>& work) {
  try {
    world.everywhere(work);
  } catch (const SharedError& error) {
    std::optional<std::string> name;
    if (error.rank()) name = places.name_of_rank[static_cast<size_t>(*error.rank())];
    if (world.is_root()) Console(true).say(machine_line(name, "error", error.what()));
    throw SharedError(error.what(), ExitCode::preflight, error.rank());
  }
}

/// What the host has left for this rank, by the tightest limit.
int64_t available_memory(const World& world) {
  const std::vector<MemoryPool> pools = system_pools("/", world.host());
  const auto least = std::ranges::min_element(pools, {}, &MemoryPool::available);
  return least == pools.end() ? 0 : least->available;
}

/// Memory and disk that training would take, as far as that is known.
/// @param given_back  left_in_memory
void add_needs(const World& world, const TrainOptions& typed, const DeviceChoice& device,
               const StatePlace& place, int threads, const DatasetLook& data, int64_t given_back,
               RankLook& mine) {
  mine.host_memory = available_memory(world);
  if (!data.dataset || typed.eval_only) return;
  TrainOptions options = typed;
  options.device = device.gpu ? "cuda" : "cpu";
  options.model.vocabulary = std::max(options.model.vocabulary, data.dataset->manifest().vocabulary);
  try {
    const Plan plan = make_plan(options, *data.dataset, TrainState(), world.rank(), world.size());
    const MemoryEstimate estimate = estimate_memory(options, plan, place, threads);
    mine.memory =
        memory_demand(world, device, estimate, given_back, LibraryUse{.free_before = mine.gpu.free});
  } catch (const Error& error) {
    mine.plan_problem = error.what();
  }
  constexpr int64_t states = 3;  // parameters and both moments
  if (options.saves()) mine.checkpoint_bytes = states * size_of(DType::f32) * Layout(options.model).size();
}

bool on_all_ranks(const World& world, bool mine) {
  const std::vector<std::string> all = world.gather(mine ? "1" : "0");
  return std::ranges::find(all, "0") == all.end();
}

/// What this rank finds at its own place, and how fast its node sums. Collective.
RankLook look_around(const World& world, const Places& places, const TrainOptions& options,
                     const GpuJudgment& gpus) {
  RankLook mine;
  DatasetLook data;
  DeviceChoice choice;
  choice.gpu = gpus.gpu_of_rank[static_cast<size_t>(world.rank())];
  std::unique_ptr<Device> device;
  look_everywhere(world, places, [&] {
    fault_point("preflight");
    mine.name = places.name_of_rank[static_cast<size_t>(world.rank())];
    data = look_at_dataset(options.data, world.node_rank(), world.node_size());
    mine.dataset_problem = data.problem;
    if (data.dataset) mine.fingerprint = to_hex(data.dataset->manifest().fingerprint());
    mine.run = look_at_space(options.out);
    mine.shared = look_at_space(memory_file_system);
    mine.gpu = look_at_gpu(choice, CudaOptions(), device);
  });
  world.watchdog().enter(Phase::start, 0);

  const bool on_gpus = on_all_ranks(world, device != nullptr);
  const ThreadChoice threads = choose_threads(world, static_cast<int>(options.threads));
  const StatePlace place = state_place(world);
  if (!on_gpus) {
    choice = {};
    device = make_cpu_device(threads.threads);
  }
  const int64_t given_back = left_in_memory(world, options);
  look_everywhere(world, places,
                  [&] { add_needs(world, options, choice, place, threads.threads, data, given_back, mine); });
  world.watchdog().enter(Phase::start, 0);
  mine.bandwidth = measure_bandwidth(world, *device, [&](const World& part) {
    if (!on_gpus) return make_mpi_session(part);
    NcclSettings settings;
    settings.test_bytes = int64_t{1} << 20;
    settings.timeout = 0.8 * preflight_timeout(options.timeout);  // so that it speaks before the watchdog
    return make_nccl_session(part, *device, settings, [](const std::string&) {});
  });
  return mine;
}

/// Of one node, by its ranks.
void judge_node(int node, const std::vector<int>& ranks, const std::vector<RankLook>& looks,
                Findings& findings) {
  const RankLook& first = looks[static_cast<size_t>(ranks.front())];
  for (const int rank : ranks) {
    const RankLook& look = looks[static_cast<size_t>(rank)];
    if (!look.dataset_problem.empty())
      findings.push_back({.node = node, .check = "dataset", .reason = look.dataset_problem});
    if (!look.gpu.problem.empty())
      findings.push_back(
          {.node = node, .check = "GPU", .reason = fmt::format("of rank {}: {}", rank, look.gpu.problem)});
  }
  const auto add = [&](Findings more) { findings.insert(findings.end(), more.begin(), more.end()); };
  add(judge_space(node, "disk", "a checkpoint", first.run, first.checkpoint_bytes));
  if (ranks.size() > 1)
    add(judge_space(node, "shared memory", "what ranks of a node share", first.shared, least_shared_memory));
}

/// Too little memory for the node's ranks, in words; empty if there is enough.
std::string memory_shortage(const std::vector<int>& ranks, const std::vector<RankLook>& looks) {
  std::vector<MemoryDemand> demands;
  for (const int rank : ranks) demands.push_back(looks[static_cast<size_t>(rank)].memory);
  const MemoryUse use = tightest(demands);
  return use.ranks.empty() || use.fits() ? "" : describe(use);
}

/// By rank 0.
void judge_all(const World& world, const TrainOptions& options, const std::vector<RankLook>& looks,
               const std::vector<int>& node_of_rank, PreflightReport& report) {
  Findings findings = std::move(report.findings);
  std::vector<ClockReading> clocks;
  std::vector<NodeBandwidth> bandwidths;
  for (int node = 0; node < world.nodes(); ++node) {
    NodeReport& row = report.nodes[static_cast<size_t>(node)];
    const RankLook& first = looks[static_cast<size_t>(row.ranks.front())];
    judge_node(node, row.ranks, looks, findings);
    const std::string shortage = memory_shortage(row.ranks, looks);
    if (!shortage.empty() && options.memory_check == "warn")
      report.warnings.push_back(fmt::format("node {} ({}): memory: {}", node, row.name, shortage));
    else if (!shortage.empty())
      findings.push_back({.node = node, .check = "memory", .reason = shortage});
    row.memory = first.host_memory;
    row.run = first.run;
    row.shared = first.shared;
    row.bandwidth = first.bandwidth;
    for (const int rank : row.ranks)
      if (const GpuLook& gpu = looks[static_cast<size_t>(rank)].gpu; !gpu.uuid.empty())
        row.gpus.push_back(gpu);
    clocks.push_back(row.clock);
    bandwidths.push_back(row.bandwidth);
  }
  const auto add = [&](Findings more) { findings.insert(findings.end(), more.begin(), more.end()); };
  std::vector<std::string> fingerprints;
  for (const RankLook& look : looks) fingerprints.push_back(look.fingerprint);
  add(find_odd("dataset", "the dataset's fingerprint", fingerprints, node_of_rank));
  add(judge_clocks(clocks));
  add(judge_bandwidth(bandwidths, options.slow_node));
  const auto unplanned =
      std::ranges::find_if(looks, [](const RankLook& look) { return !look.plan_problem.empty(); });
  if (unplanned != looks.end())
    findings.push_back({.node = {}, .check = "options", .reason = unplanned->plan_problem});
  report.findings = settle(findings, world.nodes());
}

/// On rank 0; elsewhere empty.
PreflightReport check_all(World& world, const OptionSource& source, const TrainOptions& typed,
                          const Places& places) {
  PreflightReport report{.nodes = empty_rows(world, places), .findings = {}, .warnings = {}};
  report.findings = find_other_programs(world, places);
  if (!report.findings.empty()) {  // they may not even understand each other
    report.findings = settle(report.findings, world.nodes());
    report.complete = false;
    return report;
  }
  const TrainOptions options = agree_on_options(world, source, typed);
  report.warnings = environment_differences(world);
  if (!world.layout_disagreement().empty()) report.warnings.push_back(world.layout_disagreement());

  GpuJudgment gpus = judge_gpus(options.device, gather_seen_gpus(world, options.device), places.node_of_rank);
  if (!gpus.notice.empty()) report.warnings.push_back(gpus.notice);
  report.findings = std::move(gpus.findings);

  const RankLook mine = look_around(world, places, options, gpus);
  world.watchdog().enter(Phase::start, 0);
  const std::vector<ClockReading> clocks = measure_clocks(world, places.node_of_rank);
  std::vector<RankLook> looks;
  for (const std::string& text : world.gather(to_text(mine)))
    if (world.is_root()) looks.push_back(look_from_text(text));
  if (!world.is_root()) return report;
  for (size_t node = 0; node < clocks.size(); ++node) report.nodes[node].clock = clocks[node];
  judge_all(world, options, looks, places.node_of_rank, report);
  return report;
}

int say(const World& world, const PreflightReport& report) {
  if (world.is_root()) {
    Console console(true);
    console.say(fmt::format("{} rank{} on {} node{}, all answered", world.size(),
                            world.size() == 1 ? "" : "s", world.nodes(), world.nodes() == 1 ? "" : "s"));
    for (const std::string& line : lines_of(report)) console.say(line);
    console.say(machine_line(report));
  }
  return std::stoi(world.broadcast(std::to_string(static_cast<int>(report.code()))));
}

}  // namespace

void expect_preflight(const World& world) {
  world.watchdog().hear_of_hangs(ExitCode::preflight, [](const Hang& hang, const std::string& host) {
    Console(true).say(machine_line(hang.rank ? std::optional(host) : std::nullopt, "answer", hang.reason));
  });
}

double preflight_timeout(double asked) {
  constexpr double longest = 60.0;
  return asked > 0 ? std::min(asked, longest) : longest;
}

int run_preflight(World& world, const OptionSource& source) {
  refuse_stop_requests();
  TrainOptions typed;
  world.everywhere([&] {
    typed = source.resolve("");
    validate_options(typed);
    check_threads(typed.threads);
  });
  world.set_layout({typed.node_layout});
  const Places places = find_places(world);
  world.watchdog().hear_of_hangs(ExitCode::preflight,
                                 [names = places.name_of_rank](const Hang& hang, const std::string&) {
                                   std::optional<std::string> name;
                                   if (hang.rank) name = names[static_cast<size_t>(*hang.rank)];
                                   Console(true).say(machine_line(name, "answer", hang.reason));
                                 });
  try {
    int code = 0;
    world.watchdog().limit_unwinding([&] { code = say(world, check_all(world, source, typed, places)); });
    return code;
  } catch (const SharedError&) {
    throw;
  } catch (const Error& error) {
    // Of what went wrong between ranks nobody knows who is to blame.
    std::optional<std::string> name;
    if (error.code() != ExitCode::rank_failed) name = node_name(world);
    Console(true).say(machine_line(name, "error", fmt::format("rank {}: {}", world.rank(), error.what())));
    throw Error(error.what(), ExitCode::preflight);
  }
}

}  // namespace gpt
