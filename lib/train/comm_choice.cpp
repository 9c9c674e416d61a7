#include "train/comm_choice.hpp"

#include "base/hash.hpp"
#include "comm/hierarchical_comm.hpp"
#include "train/buckets.hpp"
#include "train/comm_plan.hpp"
#include "train/flat_buffers.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

TrainOptions with(const TrainOptions& options, const CommCandidate& candidate) {
  TrainOptions result = options;
  result.reduction = candidate.reduction;
  result.inter = candidate.inter;
  return result;
}

/// Buckets of one size.
struct EqualBuckets {
  Range first;
  int64_t count = 0;
};

std::vector<EqualBuckets> by_size(const Buckets& buckets) {
  std::vector<EqualBuckets> sizes;
  for (const Range& bucket : buckets.ranges()) {
    const auto known =
        std::ranges::find(sizes, bucket.size(), [](const EqualBuckets& equal) { return equal.first.size(); });
    if (known == sizes.end())
      sizes.push_back({.first = bucket, .count = 1});
    else
      ++known->count;
  }
  return sizes;
}

/// Measures one candidate.
class StepSums {
public:
  StepSums(const World& world, Device& device, const TrainOptions& options, const Layout& layout)
      : world_(world),
        comm_(make_comm(world, comm_plan(options))),
        // All that the run will have: less of it might find room in memory that the run's does not.
        gradients_(memory_for(*comm_, device), DType::f32, {layout.size()}),
        queue_(device.make_communication_queue()) {
    if (options.zero != "0") params_ = {memory_for(*comm_, device), DType::f32, {layout.size()}};
  }

  /// Seconds of a step's sums, on the slowest rank: of one bucket of each size, as often as there are such.
  double measure(const Buckets& buckets) {
    constexpr int rounds = 4;  // the first one connects and touches
    constexpr double patience = 1.0;
    double all = 0.0, spent = 0.0;
    for (const EqualBuckets& equal : by_size(buckets)) {
      double least = 0.0;
      for (int round = 0; round < rounds && (round == 0 || spent < patience); ++round) {
        const double seconds = once(equal.first);
        least = round <= 1 ? seconds : std::min(least, seconds);
        spent += seconds;
      }
      all += least * static_cast<double>(equal.count);
    }
    return all;
  }

private:
  /// The same on all ranks.
  double once(Range bucket) {
    comm_->barrier(*queue_);
    queue_->synchronize();
    const auto start = std::chrono::steady_clock::now();
    const Tensor sum = gradients_->flat(bucket);
    if (!*params_) {
      comm_->all_reduce(sum, sum, *queue_);
    } else {
      comm_->reduce_scatter(sum, *queue_);
      comm_->all_gather(params_->flat(bucket), *queue_);
    }
    queue_->synchronize();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, world_.world()));
    return seconds;
  }

  const World& world_;
  std::unique_ptr<Comm> comm_;
  TensorBuffer gradients_, params_;  // params_: with ZeRO
  std::unique_ptr<Queue> queue_;     // its end comes before that of what it works on
};

/// Whether sums travel as bf16 between nodes.
bool rounds_between(const TrainOptions& options) { return options.wire.ends_with("bf16"); }

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

std::string comm_situation(const NodeOfRank& layout, const std::string& device, const TrainOptions& options) {
  return fmt::format(
      "{} ranks on {} nodes, layout {}, {}, reduction {}, inter {}, wire {}, zero {}, bucket {} MiB",
      layout.size(), ranks_per_node(layout).size(),
      to_hex(hash_bytes(layout.data(), layout.size() * sizeof(int))), device, options.reduction,
      options.inter, options.wire, options.zero, options.bucket_mb);
}

std::vector<CommCandidate> comm_candidates(const TrainOptions& options, int nodes, int ranks) {
  std::vector<std::string> inters = {options.inter};
  // What is rounded goes straight to its owner either way; parameters are not, with --zero 1 between nodes
  // too.
  const bool matters = !rounds_between(options) || options.zero == "1";
  if (options.inter == "auto") {
    inters = {"ring"};
    if (matters && nodes > 1) inters.emplace_back("mpi");
    if (matters && nodes > 2 && std::has_single_bit(static_cast<unsigned>(nodes)))
      inters.emplace_back("halving");
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

const CommCandidate& fastest(const std::vector<CommCandidate>& candidates) {
  return *std::ranges::min_element(candidates, {}, &CommCandidate::seconds);
}

std::optional<CommChoice> still_valid(const std::optional<CommChoice>& before, const std::string& situation,
                                      const std::vector<CommCandidate>& candidates) {
  const auto is_before = [&](const CommCandidate& candidate) {
    return candidate.reduction == before->reduction && candidate.inter == before->inter;
  };
  if (!before || before->situation != situation || std::ranges::none_of(candidates, is_before))
    return std::nullopt;
  return before;
}

CommChoice choose_comm(const World& world, Device& device, const TrainOptions& options,
                       const std::string& stored, const std::function<void(const std::string&)>& say) {
  const std::string situation = comm_situation(grouping_of(world).layout, device.name(), options);
  const std::optional<CommChoice> before = parse_comm_choice(stored);
  std::vector<CommCandidate> candidates = comm_candidates(options, world.nodes(), world.size());
  if (const auto valid = still_valid(before, situation, candidates)) return *valid;

  if (candidates.size() > 1) {
    const Layout layout(options.model);
    const Buckets buckets(layout, options.bucket_bytes());
    std::string figures;
    for (CommCandidate& candidate : candidates) {
      candidate.seconds = StepSums(world, device, with(options, candidate), layout).measure(buckets);
      figures += fmt::format("{}{} {:.2f} ms", figures.empty() ? "" : ", ", name_of(candidate, world.nodes()),
                             candidate.seconds * 1e3);
    }
    // All ranks measured the slowest rank's time: they choose alike.
    say(fmt::format("sums of {:.1f} MiB{}: {}; {} it is",
                    static_cast<double>(layout.size() * size_of(DType::f32)) / 0x1p20,
                    options.zero == "0" ? "" : " and as much of parameters", figures,
                    name_of(fastest(candidates), world.nodes())));
  }
  const CommCandidate& chosen = fastest(candidates);
  if (before)
    say(fmt::format(
        "notice: the last bits of sums may differ from the resumed run's: {} with {} now, in {}; "
        "it was {} with {}, in {}",
        chosen.reduction, chosen.inter, situation, before->reduction, before->inter, before->situation));
  return {.situation = situation, .reduction = chosen.reduction, .inter = chosen.inter};
}

TrainOptions with_any_sums(const TrainOptions& options, const World& world) {
  return with(options, comm_candidates(options, world.nodes(), world.size()).front());
}

}  // namespace gpt
