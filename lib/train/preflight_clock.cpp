#include "train/preflight_clock.hpp"

#include "base/mpi.hpp"
#include "base/stopwatch.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <limits>

namespace gpt {
namespace {

constexpr int questions = 12;  // to each node
constexpr int tag = 1;

/// Seconds since 1970, as this host sees it.
double time_of_day() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

ClockReading ask(MPI_Comm comm, int rank) {
  ClockReading best{.ahead = 0.0, .uncertainty = std::numeric_limits<double>::infinity()};
  for (int i = 0; i < questions; ++i) {
    const double before = time_of_day();
    const Stopwatch watch;
    double theirs = 0.0;
    check_mpi(MPI_Send(&before, 1, MPI_DOUBLE, rank, tag, comm));
    check_mpi(MPI_Recv(&theirs, 1, MPI_DOUBLE, rank, tag, comm, MPI_STATUS_IGNORE));
    const double half = 0.5 * watch.seconds();
    if (half < best.uncertainty) best = {.ahead = theirs - (before + half), .uncertainty = half};
  }
  return best;
}

void answer(MPI_Comm comm) {
  for (int i = 0; i < questions; ++i) {
    double asked = 0.0;
    check_mpi(MPI_Recv(&asked, 1, MPI_DOUBLE, 0, tag, comm, MPI_STATUS_IGNORE));
    const double now = time_of_day();
    check_mpi(MPI_Send(&now, 1, MPI_DOUBLE, 0, tag, comm));
  }
}

/// The median; of the two in the middle the one that is nearer to rank 0's clock.
double usual_time(const std::vector<ClockReading>& clocks) {
  std::vector<double> ahead;
  for (const ClockReading& clock : clocks) ahead.push_back(clock.ahead);
  std::ranges::sort(ahead);
  const double lower = ahead[(ahead.size() - 1) / 2], upper = ahead[ahead.size() / 2];
  return std::abs(lower) < std::abs(upper) ? lower : upper;
}

}  // namespace

std::vector<ClockReading> measure_clocks(const World& world, const std::vector<int>& node_of_rank) {
  const Watchdog::Waiting waiting(world.watchdog());
  if (!world.is_root()) {
    if (world.node_rank() == 0) answer(world.world());
    return {};
  }
  std::vector<ClockReading> clocks(static_cast<size_t>(world.nodes()));
  for (int node = 0; node < world.nodes(); ++node) {
    const auto first = std::ranges::find(node_of_rank, node);
    const auto rank = static_cast<int>(first - node_of_rank.begin());
    if (rank != 0) clocks[static_cast<size_t>(node)] = ask(world.world(), rank);
    world.watchdog().tick();
  }
  return clocks;
}

Findings judge_clocks(const std::vector<ClockReading>& clocks, double largest_skew) {
  Findings findings;
  if (clocks.empty()) return findings;
  const double usual = usual_time(clocks);
  for (size_t node = 0; node < clocks.size(); ++node) {
    const double ahead = clocks[node].ahead - usual;
    if (std::abs(ahead) - clocks[node].uncertainty <= largest_skew) continue;
    findings.push_back(
        {.node = static_cast<int>(node),
         .check = "clock",
         .reason = fmt::format("its clock is {:.1f} s {} that of the other nodes, {:g} s are allowed",
                               std::abs(ahead), ahead > 0 ? "ahead of" : "behind", largest_skew)});
  }
  return findings;
}

}  // namespace gpt
