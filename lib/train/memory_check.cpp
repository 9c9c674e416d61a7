#include "train/memory_check.hpp"

#include "device/cuda_device.hpp"
#include "model/layout.hpp"
#include "train/node_checkpoint_room.hpp"
#include "train/threads.hpp"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

/// @param demands, ways  of each rank
std::string refusal(const MemoryUse& use, const std::vector<std::string>& demands,
                    const std::vector<std::string>& ways) {
  const auto first = static_cast<size_t>(use.ranks.front());
  std::vector<std::string> help;
  if (!ways[first].empty()) help.push_back(ways[first]);
  if (use.pool.is_shared && use.pool.available < use.pool.total)
    help.push_back("free what others hold of it");
  help.push_back("give the job more memory");
  return fmt::format(
      "not enough memory: {}. Rank {} needs {}. What helps: {}. If this is wrong, "
      "--memory-check warn starts all the same",
      describe(use), use.ranks.front(), demands[first], fmt::join(help, "; "));
}

/// Of the host's memory. @param given_back  bytes of it that earlier starts hold (left_in_memory)
MemoryDemand demand_of_host(const World& world, int64_t bytes, int64_t given_back) {
  MemoryDemand demand{.bytes = bytes, .pools = system_pools("/", world.host(), given_back)};
  for (MemoryPool& pool : process_pools(fmt::format("rank {}", world.rank())))
    demand.pools.push_back(std::move(pool));
  return demand;
}

/// Of the GPU's own memory.
MemoryDemand demand_of_gpu(const World& world, int index, const MemoryEstimate& estimate, int64_t available) {
  const CudaDeviceInfo gpu = visible_cuda_devices()[static_cast<size_t>(index)];
  return {.bytes = estimate.on_device(),
          .pools = {{.key = gpu.uuid_text(),
                     .name = fmt::format("{} of rank {} on {}", gpu.name, world.rank(), world.host()),
                     .total = gpu.memory,
                     .available = available}}};
}

/// Of the demands of all ranks. Collective.
MemoryUse tightest_of_all(const World& world, const MemoryDemand& mine) {
  std::vector<MemoryDemand> demands;
  for (const std::string& text : world.gather(to_text(mine))) demands.push_back(demand_from_text(text));
  return tightest(demands);
}

/// On GPUs what is saved is copied to pinned memory of the host, which may be less than the GPUs have. What
/// nodes keep in memory is the host's, too.
std::string too_little_for_copies(const MemoryUse& use, const TrainOptions& options) {
  const bool keeps = options.memory_every > 0;
  return fmt::format(
      "not enough memory of the host: {}, for the copies that checkpoints are written from{}. What helps: "
      "free what others hold of it; give the job more memory; fewer ranks a node; {}--save-every 0 saves "
      "nothing. If this is wrong, --memory-check warn starts all the same",
      describe(use), keeps ? " and those that nodes keep in memory" : "",
      keeps ? "--memory-every 0 keeps none in memory; " : "");
}

/// Says how near a use comes to its end.
void say_fit(Console& console, const MemoryUse& use) {
  constexpr double near = 0.9;
  console.say((use.share() > near ? "warning: little memory is left: " : "memory: ") + describe(use));
}

void refuse_or_warn(Console& console, const TrainOptions& options, const std::string& message) {
  if (options.memory_check != "warn") throw SharedError(message, ExitCode::usage);
  console.say("warning: " + message);
}

}  // namespace

double MemoryUse::share() const {
  return static_cast<double>(needed) / static_cast<double>(std::max<int64_t>(pool.available, 1));
}

MemoryUse tightest(const std::vector<MemoryDemand>& demands) {
  std::map<std::string, MemoryUse> uses;
  for (size_t rank = 0; rank < demands.size(); ++rank)
    for (const MemoryPool& pool : demands[rank].pools) {
      MemoryUse& use =
          uses.try_emplace(pool.key, MemoryUse{.pool = pool, .needed = 0, .ranks = {}}).first->second;
      use.pool.available = std::min(use.pool.available, pool.available);
      use.needed += demands[rank].bytes;
      use.ranks.push_back(static_cast<int>(rank));
    }
  const auto found =
      std::ranges::max_element(uses, {}, [](const auto& entry) { return entry.second.share(); });
  return found == uses.end() ? MemoryUse{} : found->second;
}

std::string to_text(const MemoryDemand& demand) {
  nlohmann::json pools = nlohmann::json::array();
  for (const MemoryPool& pool : demand.pools)
    pools.push_back({pool.key, pool.name, pool.total, pool.available, pool.is_shared});
  return nlohmann::json{demand.bytes, pools}.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

MemoryDemand demand_from_text(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    MemoryDemand demand{.bytes = json.at(0).get<int64_t>(), .pools = {}};
    for (const nlohmann::json& pool : json.at(1))
      demand.pools.push_back({.key = pool.at(0).get<std::string>(),
                              .name = pool.at(1).get<std::string>(),
                              .total = pool.at(2).get<int64_t>(),
                              .available = pool.at(3).get<int64_t>(),
                              .is_shared = pool.at(4).get<bool>()});
    return demand;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("a rank's need of memory cannot be read: {}", error.what()));
  }
}

std::string describe(const MemoryUse& use) {
  return fmt::format("{}: {} needed by {} rank{}, {} available of {}", use.pool.name,
                     readable_bytes(use.needed), use.ranks.size(), use.ranks.size() == 1 ? "" : "s",
                     readable_bytes(use.pool.available), readable_bytes(use.pool.total));
}

std::vector<std::string> ways_out(const TrainOptions& options, const Plan& plan, const StatePlace& place,
                                  int threads, int64_t sharers, StateDivision division) {
  std::vector<std::string> ways;
  const int64_t now = estimate_memory(options, plan, place, threads).total();
  const auto offer = [&](const std::string& way, const TrainOptions& changed, const Plan& smaller) {
    const int64_t saved = now - estimate_memory(changed, smaller, place, threads).total();
    if (saved > 0)
      ways.push_back(
          fmt::format("{} (saves {} of {} a rank)", way, readable_bytes(saved), readable_bytes(now)));
  };
  TrainOptions changed = options;
  changed.recompute = "block";
  offer("--recompute block", changed, plan);
  if (plan.micro_batch > 1 && plan.leaves.empty()) {  // else there would be other leaves, and other bits
    Plan smaller = plan;
    smaller.micro_batch = ceil_div(plan.micro_batch, 2);
    offer(fmt::format("--micro-batch {}", smaller.micro_batch), options, smaller);
  }
  changed = options;
  changed.zero = "1";
  if (options.zero == "0" && division == StateDivision::possible) offer("--zero 1", changed, plan);
  if (sharers > 1) ways.push_back("fewer ranks a node");
  return ways;
}

MemoryDemand memory_demand(const World& world, const DeviceChoice& device, const MemoryEstimate& estimate,
                           int64_t given_back, const std::optional<LibraryUse>& libraries) {
  if (!device.gpu) return demand_of_host(world, estimate.total(), given_back);
  return demand_of_gpu(world, *device.gpu, estimate,
                       libraries ? libraries->free_before : free_cuda_memory(*device.gpu));
}

MemoryEstimate check_memory(Console& console, const World& world, const DeviceChoice& device,
                            const TrainOptions& options, const Plan& plan, StateDivision division,
                            const std::optional<LibraryUse>& libraries) {
  const StatePlace place = state_place(world);
  const int threads = choose_threads(world, static_cast<int>(options.threads)).threads;
  MemoryEstimate estimate = estimate_memory(options, plan, place, threads);
  if (libraries) estimate.libraries = libraries->bytes;
  const int64_t given_back = left_in_memory(world, options);
  if (device.gpu && options.saves()) {
    const MemoryUse copies = tightest_of_all(world, demand_of_host(world, estimate.on_host(), given_back));
    if (!copies.ranks.empty() && copies.fits()) say_fit(console, copies);
    if (!copies.fits())
      refuse_or_warn(console, options, world.broadcast(too_little_for_copies(copies, options)));
  }
  const MemoryUse use = tightest_of_all(world, memory_demand(world, device, estimate, given_back, libraries));
  const std::vector<std::string> needs = world.gather(describe(estimate, Layout(options.model).parameters()));
  if (use.ranks.empty()) return estimate;
  if (use.fits()) {
    say_fit(console, use);
    return estimate;
  }
  const auto ways = ways_out(options, plan, place, threads, std::ssize(use.ranks), division);
  const std::vector<std::string> ways_of_ranks = world.gather(fmt::format("{}", fmt::join(ways, "; ")));
  refuse_or_warn(console, options, world.broadcast(refusal(use, needs, ways_of_ranks)));
  return estimate;
}

}  // namespace gpt
