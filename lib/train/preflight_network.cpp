#include "train/preflight_network.hpp"

#include "base/fault.hpp"
#include "base/mpi.hpp"
#include "base/stopwatch.hpp"
#include "comm/comm_plan.hpp"
#include "comm/shared_error.hpp"
#include "train/flat_buffers.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace gpt {
namespace {

constexpr int64_t elements = int64_t{1} << 20;  // f32: 4 MiB
constexpr int least_sums = 3;
constexpr int most_sums = 50;
constexpr double patience = 0.3;  // seconds, once there are `least_sums`

/// What a part of the world came to.
struct Measured {
  double seconds = 0.0;  ///< of the fastest sum, on its slowest rank
  bool right = true;     ///< the first sum
};

/// All ranks add their number, from 1 on: exact in f32 for as many ranks as jobs have.
class Sums {
public:
  Sums(const World& part, CommSession& session, Device& device)
      : part_(part),
        comm_(session.make({})),
        numbers_(device.host_memory(), DType::f32, {elements}),
        data_(memory_for(*comm_, device), DType::f32, {elements}),
        queue_(device.make_communication_queue()) {}

  bool first_is_right() {
    auto* const numbers = numbers_->data<float>();
    std::fill_n(numbers, elements, static_cast<float>(part_.rank() + 1));
    queue_->copy(data_, numbers_);
    queue_->synchronize();
    once();
    queue_->copy(numbers_, data_);
    queue_->zero(data_);  // it would grow from sum to sum
    queue_->synchronize();
    const auto ranks = static_cast<float>(part_.size());
    const float expected = 0.5F * ranks * (ranks + 1.0F);
    int wrong =
        std::ranges::any_of(numbers, numbers + elements, [&](float sum) { return sum != expected; }) ? 1 : 0;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, part_.world()));
    return wrong == 0;
  }

  /// Seconds of the slowest rank; the same on all.
  double once() {
    comm_->barrier(*queue_);
    queue_->synchronize();
    const Stopwatch watch;
    fault_point("preflight.sum");
    comm_->all_reduce(data_, data_, *queue_);
    queue_->synchronize();
    double seconds = watch.seconds();
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, part_.world()));
    return seconds;
  }

private:
  const World& part_;
  std::unique_ptr<Comm> comm_;
  TensorBuffer numbers_;
  TensorBuffer data_;
  std::unique_ptr<Queue> queue_;  // its end comes before that of what it works on
};

Measured measure(const World& world, const World& part, Device& device, const MakeSession& make_session) {
  const Watchdog::Waiting waiting(world.watchdog());
  try {
    const std::unique_ptr<CommSession> session = make_session(part);
    Sums sums(part, *session, device);
    const GiveUpOnFailure give_up(*session);
    Measured measured{.right = sums.first_is_right()};
    measured.seconds = sums.once();
    double spent = measured.seconds;
    for (int i = 1; i < least_sums || (i < most_sums && spent < patience); ++i) {
      const double seconds = sums.once();
      measured.seconds = std::min(measured.seconds, seconds);
      spent += seconds;
      world.watchdog().tick();
    }
    return measured;
  } catch (const SharedError& error) {  // only the ranks of the part hold it
    throw Error(error.what(), error.code());
  }
}

/// @param members  that the message goes around
double bus_bandwidth(double seconds, int members) {
  constexpr double bytes = 4.0 * static_cast<double>(elements);
  return 2.0 * (members - 1) / members * bytes / seconds;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

using Field = std::optional<double> NodeBandwidth::*;

void judge_speed(const std::vector<NodeBandwidth>& bandwidths, Field field, const std::string& where,
                 double slow_factor, Findings& findings) {
  std::vector<double> known;
  for (const NodeBandwidth& node : bandwidths)
    if (node.*field) known.push_back(*(node.*field));
  if (known.size() < 2 || slow_factor == 0.0) return;
  const double usual = median_of(known);
  for (size_t node = 0; node < bandwidths.size(); ++node) {
    const std::optional<double>& speed = bandwidths[node].*field;
    if (!speed || *speed * slow_factor >= usual) continue;
    findings.push_back(
        {.node = static_cast<int>(node),
         .check = "network",
         .reason = fmt::format("sums {} go at {:.3g} GB/s, the median of the nodes is {:.3g} GB/s "
                               "(--slow-node {:g} times is too slow)",
                               where, *speed * 1e-9, usual * 1e-9, slow_factor)});
  }
}

}  // namespace

std::optional<int> partner_of(int node, int nodes, int round) {
  const int seats = nodes + nodes % 2;  // with an empty one for an odd number of nodes
  const int circle = seats - 1;
  const auto meets = [&](int seat) { return ((round - seat) % circle + circle) % circle; };
  int partner = 0;
  if (node == circle) {
    while (meets(partner) != partner) ++partner;  // the seat that meets itself meets the fixed one
  } else {
    partner = meets(node) == node ? circle : meets(node);
  }
  if (partner >= nodes) return std::nullopt;
  return partner;
}

NodeBandwidth measure_bandwidth(const World& world, Device& device, const MakeSession& make_session) {
  NodeBandwidth found{.inside = {}, .between = {}};
  const auto make_part = [&](int color) {
    const Watchdog::Waiting waiting(world.watchdog());
    return world.part(color);
  };
  {
    const std::unique_ptr<World> node = make_part(world.node_index());
    const Measured measured = measure(world, *node, device, make_session);
    if (node->size() > 1) found.inside = bus_bandwidth(measured.seconds, node->size());
    if (!measured.right) found.wrong_sums.emplace_back("sums inside the node are wrong");
  }
  world.barrier();
  const int rounds = std::min(measured_partners, world.nodes() + world.nodes() % 2 - 1);
  for (int round = 0; round < rounds && world.nodes() > 1; ++round) {
    const std::optional<int> partner = partner_of(world.node_index(), world.nodes(), round);
    const std::unique_ptr<World> pair =
        make_part(std::min(world.node_index(), partner.value_or(world.node_index())));
    if (partner) {
      const Measured measured = measure(world, *pair, device, make_session);
      found.between = std::max(found.between.value_or(0.0), bus_bandwidth(measured.seconds, 2));
      if (!measured.right) found.wrong_sums.push_back(fmt::format("sums with node {} are wrong", *partner));
    }
    world.barrier();
  }
  return found;
}

Findings judge_bandwidth(const std::vector<NodeBandwidth>& bandwidths, double slow_factor) {
  Findings findings;
  judge_speed(bandwidths, &NodeBandwidth::inside, "inside the node", slow_factor, findings);
  judge_speed(bandwidths, &NodeBandwidth::between, "with the best of its partners", slow_factor, findings);
  for (size_t node = 0; node < bandwidths.size(); ++node)
    for (const std::string& wrong : bandwidths[node].wrong_sums)
      findings.push_back({.node = static_cast<int>(node), .check = "sums", .reason = wrong});
  return findings;
}

}  // namespace gpt
