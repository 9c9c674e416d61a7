#include "train/comm_choice.hpp"

#include "base/hash.hpp"
#include "comm/hierarchical_comm.hpp"
#include "train/comm_plan.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

std::string situation_of(const World& world, const Device& device, const TrainOptions& options) {
  const NodeOfRank layout = grouping_of(world).layout;
  return fmt::format(
      "{} ranks on {} nodes, layout {}, {}, reduction {}, inter {}, wire {}, zero {}, bucket {} MiB",
      world.size(), world.nodes(), to_hex(hash_bytes(layout.data(), layout.size() * sizeof(int))),
      device.name(), options.reduction, options.inter, options.wire, options.zero, options.bucket_mb);
}

TrainOptions with(const TrainOptions& options, const CommCandidate& candidate) {
  TrainOptions result = options;
  result.reduction = candidate.reduction;
  result.inter = candidate.inter;
  return result;
}

/// Least seconds of a sum of `bytes`, of the slowest rank.
double measure(const World& world, Device& device, const CommPlan& plan, int64_t bytes) {
  constexpr int rounds = 4;  // the first one connects and touches
  const std::unique_ptr<Comm> comm = make_comm(world, plan);
  const std::unique_ptr<Queue> queue = device.make_communication_queue();
  Allocator* const own = comm->allocator();
  const TensorBuffer data(own != nullptr ? *own : static_cast<Allocator&>(device), DType::f32,
                          {bytes / size_of(DType::f32)});
  double least = 0.0;
  for (int round = 0; round < rounds; ++round) {
    comm->barrier(*queue);
    queue->synchronize();
    const auto start = std::chrono::steady_clock::now();
    comm->all_reduce(data, data, *queue);
    queue->synchronize();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, world.world()));
    least = round <= 1 ? seconds : std::min(least, seconds);
  }
  return least;
}

std::string name_of(const CommCandidate& candidate, int nodes) {
  const bool has_inter = candidate.reduction == "hierarchical" && nodes > 1;
  return has_inter ? candidate.reduction + " with " + candidate.inter : candidate.reduction;
}

}  // namespace

std::string to_text(const CommChoice& choice) {
  return nlohmann::json{
      {"situation", choice.situation}, {"reduction", choice.reduction}, {"inter", choice.inter}}
      .dump();
}

std::optional<CommChoice> parse_comm_choice(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  CommChoice choice;
  for (const auto& [name, field] :
       {std::pair{"situation", &choice.situation}, std::pair{"reduction", &choice.reduction},
        std::pair{"inter", &choice.inter}}) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_string()) return std::nullopt;
    *field = found->get<std::string>();
  }
  return choice;
}

std::vector<CommCandidate> comm_candidates(const TrainOptions& options, int nodes, int ranks) {
  std::vector<std::string> inters = {options.inter};
  if (options.inter == "auto") {
    inters = {"ring"};
    if (nodes > 1) inters.emplace_back("mpi");
    if (nodes > 2 && std::has_single_bit(static_cast<unsigned>(nodes))) inters.emplace_back("halving");
  }
  if (options.reduction != "auto" && options.reduction != "hierarchical")
    return {{.reduction = options.reduction, .inter = inters.front()}};
  std::vector<CommCandidate> candidates;
  for (const std::string& inter : inters) candidates.push_back({.reduction = "hierarchical", .inter = inter});
  // A flat sum is the library's: it knows no other types on the wire and no parts inside nodes.
  const bool may_be_flat = options.reduction == "auto" && ranks > 1 && options.zero != "node" &&
                           options.wire.find("bf16") == std::string::npos;
  if (may_be_flat) candidates.push_back({.reduction = "flat", .inter = inters.front()});
  return candidates;
}

CommChoice choose_comm(const World& world, Device& device, const TrainOptions& options, int64_t bytes,
                       const std::string& stored, const std::function<void(const std::string&)>& say) {
  CommChoice choice{.situation = situation_of(world, device, options), .reduction = {}, .inter = {}};
  const std::optional<CommChoice> before = parse_comm_choice(stored);
  if (before && before->situation == choice.situation) return *before;

  std::vector<CommCandidate> candidates = comm_candidates(options, world.nodes(), world.size());
  if (candidates.size() > 1) {
    std::string figures;
    for (CommCandidate& candidate : candidates) {
      candidate.seconds = measure(world, device, comm_plan(with(options, candidate)), bytes);
      figures += fmt::format("{}{} {:.2f} ms", figures.empty() ? "" : ", ", name_of(candidate, world.nodes()),
                             candidate.seconds * 1e3);
    }
    // All ranks measured the slowest rank's time: they choose alike.
    std::ranges::stable_sort(candidates, {}, &CommCandidate::seconds);
    say(fmt::format("sums of {:.1f} MiB: {}; {} it is", static_cast<double>(bytes) / 0x1p20, figures,
                    name_of(candidates.front(), world.nodes())));
  }
  choice.reduction = candidates.front().reduction;
  choice.inter = candidates.front().inter;
  if (before)
    say(
        fmt::format("notice: the last bits of sums may differ from the resumed run's: {} with {} now, in {}; "
                    "it was {} with {}, in {}",
                    choice.reduction, choice.inter, choice.situation, before->reduction, before->inter,
                    before->situation));
  return choice;
}

}  // namespace gpt
