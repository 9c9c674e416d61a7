#include "train/threads.hpp"

#include "base/error.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <map>
#include <unistd.h>

namespace gpt {
namespace {

/// Core by core, as text: '1' for each that this process may run on.
std::string affinity_mask() {
  const std::vector<int> cores = usable_cores();
  std::string mask(static_cast<size_t>(cores.back()) + 1, '0');
  for (int core : cores) mask[static_cast<size_t>(core)] = '1';
  return mask;
}

constexpr int64_t threads_for_a_core = 16;

/// Whatever this process may use of them: launchers bind ranks to fewer.
int64_t cores_of_machine() { return std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN)); }

bool overlap(const std::string& a, const std::string& b) {
  for (size_t core = 0; core < std::min(a.size(), b.size()); ++core)
    if (a[core] == '1' && b[core] == '1') return true;
  return false;
}

}  // namespace

ThreadChoice choose_threads(const World& world, int asked) {
  const std::string mask = affinity_mask();
  const std::vector<std::string> hosts = world.gather(world.host());
  const std::vector<std::string> masks = world.gather(mask);
  ThreadChoice choice;
  choice.cores = std::max<int>(1, static_cast<int>(std::ranges::count(mask, '1')));
  choice.sharers = 0;
  for (size_t rank = 0; rank < masks.size(); ++rank)
    if (hosts[rank] == world.host() && overlap(masks[rank], mask)) ++choice.sharers;
  choice.sharers = std::max(1, choice.sharers);
  choice.threads = asked > 0 ? asked : std::max(1, choice.cores / choice.sharers);
  return choice;
}

std::vector<std::string> thread_warnings(const World& world, const ThreadChoice& choice) {
  std::string mine;
  if (choice.threads > choice.cores)
    mine = fmt::format(
        "{} threads on {} core{}: use fewer, or let the rank use more cores (mpirun: --bind-to none; srun: "
        "--cpus-per-task)",
        choice.threads, choice.cores, choice.cores == 1 ? "" : "s");
  else if (choice.threads * choice.sharers > choice.cores)
    mine = fmt::format("{} thread{} each, and {} ranks share {} core{}: they wait for each other",
                       choice.threads, choice.threads == 1 ? "" : "s", choice.sharers, choice.cores,
                       choice.cores == 1 ? "" : "s");
  std::map<std::string, std::vector<size_t>> ranks_by_warning;
  const std::vector<std::string> all = world.gather(mine);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) ranks_by_warning[all[rank]].push_back(rank);
  std::vector<std::string> warnings;
  for (const auto& [text, ranks] : ranks_by_warning)
    warnings.push_back(ranks.size() == 1
                           ? fmt::format("rank {}: {}", ranks.front(), text)
                           : fmt::format("{} ranks from rank {} on: {}", ranks.size(), ranks.front(), text));
  return warnings;
}

int64_t most_threads() { return threads_for_a_core * cores_of_machine(); }

void check_threads(int64_t threads) {
  const int64_t cores = cores_of_machine();
  validate(
      threads >= 0 && threads <= most_threads(),
      "--threads {}: this machine has {} core{}: use up to {} ({} for each), or 0 for this rank's share of "
      "the cores",
      threads, cores, cores == 1 ? "" : "s", most_threads(), threads_for_a_core);
}

}  // namespace gpt
