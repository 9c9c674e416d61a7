#include "train/comm_choice.hpp"

#include "base/hash.hpp"
#include "comm/comm_plan.hpp"
#include "comm/grouping.hpp"
#include "model/layout.hpp"
#include "train/comm_measure.hpp"
#include "train/comm_plan.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace gpt {
namespace {

/// The entry for which rank is on which node: a hash, so that its value tells people nothing.
const std::string placement = "placement";

/// The ways between nodes that `options` leave open to hierarchical sums; an empty name where there are none.
std::vector<std::string> inters_between(int nodes, const TrainOptions& options, bool heeds_inter) {
  if (nodes == 1 || !heeds_inter) return {""};
  if (all_goes_direct(options)) return {"direct"};
  if (options.inter != "auto") return {options.inter};
  if (nodes > 2 && std::has_single_bit(static_cast<unsigned>(nodes))) return {"ring", "mpi", "halving"};
  return {"ring", "mpi"};
}

/// "flat", "hierarchical with ring".
std::string name_of(const std::string& reduction, const std::string& inter) {
  return inter.empty() ? reduction : reduction + " with " + inter;
}

std::string differences(const CommSituation& now, const CommSituation& before) {
  std::string text;
  const auto add = [&](const std::string& difference) { text += (text.empty() ? "" : ", ") + difference; };
  for (const auto& [name, value] : now) {
    const auto was = before.find(name);
    if (was == before.end() || was->second == value) continue;
    add(name == placement ? name + " changed" : fmt::format("{} {} instead of {}", name, value, was->second));
  }
  return text;
}

/// What all ranks compute on, each kind once: nodes may differ, and threads do where ranks share cores
/// unevenly.
std::string devices_of(const World& world, const Device& device) {
  std::vector<std::string> kinds;
  for (std::string& name : world.gather(device.name()))
    if (std::ranges::find(kinds, name) == kinds.end()) kinds.push_back(std::move(name));
  return fmt::format("{}", fmt::join(kinds, "; "));
}

}  // namespace

std::string to_text(const CommChoice& choice) {
  nlohmann::json json{{"situation", choice.situation}, {"reduction", choice.reduction}};
  if (!choice.inter.empty()) json["inter"] = choice.inter;
  return json.dump();
}

std::optional<CommChoice> parse_comm_choice(const std::string& text) try {
  const nlohmann::json json = nlohmann::json::parse(text);
  return CommChoice{.situation = json.at("situation").get<CommSituation>(),
                    .reduction = json.at("reduction").get<std::string>(),
                    .inter = json.value("inter", "")};
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

CommSituation comm_situation(const NodeOfRank& layout, const std::string& device,
                             const TrainOptions& options) {
  CommSituation situation = {{"device", device},
                             {"reduction", options.reduction},
                             {"micro-batch", std::to_string(options.micro_batch)}};
  if (options.reduction == "tree") return situation;  // that is what it is for
  situation.insert({{"ranks", std::to_string(layout.size())},
                    {"nodes", std::to_string(ranks_per_node(layout).size())},
                    {placement, to_hex(hash_bytes(layout.data(), layout.size() * sizeof(int)))},
                    {"inter", options.inter},
                    {"wire", options.wire},
                    {"zero", options.zero},
                    {"bucket-mb", fmt::format("{}", options.bucket_mb)}});
  if (options.zero != "0") situation.emplace("precision", options.precision);  // as which weights travel
  return situation;
}

std::vector<CommCandidate> comm_candidates(const TrainOptions& options, int nodes, int ranks,
                                           bool heeds_inter) {
  std::vector<CommCandidate> candidates;
  const bool hierarchical = options.reduction == "auto" || options.reduction == "hierarchical";
  if (!hierarchical) candidates.push_back({.reduction = options.reduction, .inter = ""});
  if (hierarchical)
    for (const std::string& inter : inters_between(nodes, options, heeds_inter))
      candidates.push_back({.reduction = "hierarchical", .inter = inter});
  // A flat sum is the library's: it knows no other types on the wire and no parts inside nodes.
  const bool may_be_flat = options.reduction == "auto" && ranks > 1 && options.zero != "node" &&
                           options.wire.find("bf16") == std::string::npos;
  // With one hop a library that chooses all by itself does the same for both.
  const bool is_another = heeds_inter || (nodes > 1 && ranks > nodes);
  if (may_be_flat && is_another) candidates.push_back({.reduction = "flat", .inter = ""});
  return candidates;
}

const CommCandidate& preferred(const std::vector<CommCandidate>& candidates) {
  constexpr double clearly = 0.9;
  const CommCandidate& fastest = *std::ranges::min_element(candidates, {}, &CommCandidate::seconds);
  return fastest.seconds < clearly * candidates.front().seconds ? fastest : candidates.front();
}

std::optional<CommChoice> still_valid(const std::optional<CommChoice>& before, const CommSituation& situation,
                                      const std::vector<CommCandidate>& candidates) {
  const auto is_before = [&](const CommCandidate& candidate) {
    return candidate.reduction == before->reduction && candidate.inter == before->inter;
  };
  if (!before || before->situation != situation || std::ranges::none_of(candidates, is_before))
    return std::nullopt;
  return before;
}

TrainOptions with_sums(const TrainOptions& options, const std::string& reduction, const std::string& inter) {
  TrainOptions result = options;
  result.reduction = reduction;
  if (!inter.empty()) result.inter = inter;
  if (result.inter == "auto") result.inter = "ring";  // has no effect
  return result;
}

CommChoice choose_comm(const World& world, CommSession& session, Device& device, const TrainOptions& options,
                       const std::string& stored, const std::function<void(const std::string&)>& say) {
  CommSituation situation = comm_situation(grouping_of(world).layout, devices_of(world, device), options);
  if (!session.heeds_inter()) situation.emplace("library", session.name());
  const std::optional<CommChoice> before = parse_comm_choice(stored);
  std::vector<CommCandidate> candidates =
      comm_candidates(options, world.nodes(), world.size(), session.heeds_inter());
  if (const auto valid = still_valid(before, situation, candidates)) return *valid;

  if (candidates.size() > 1) {
    measure_candidates(world, session, device, options, candidates);
    std::string figures;
    for (const CommCandidate& candidate : candidates)
      figures += fmt::format("{}{} {:.2f} ms", figures.empty() ? "" : ", ",
                             name_of(candidate.reduction, candidate.inter), candidate.seconds * 1e3);
    const auto mebibytes = [&](DType type) {
      return static_cast<double>(Layout(options.model).size() * size_of(type)) / 0x1p20;
    };
    say(fmt::format("sums of {:.1f} MiB{}: {}; {} it is", mebibytes(DType::f32),
                    options.zero == "0"
                        ? ""
                        : fmt::format(" and {:.1f} MiB of weights", mebibytes(options.matrix_type())),
                    figures, name_of(preferred(candidates).reduction, preferred(candidates).inter)));
  }
  // All ranks measured the slowest rank's time: they choose alike.
  const CommCandidate& chosen = preferred(candidates);
  const CommChoice choice{.situation = situation, .reduction = chosen.reduction, .inter = chosen.inter};
  if (before) {
    std::string changes = differences(situation, before->situation);
    if (choice.reduction != before->reduction || choice.inter != before->inter)
      changes +=
          fmt::format("{}sums are {} instead of {}", changes.empty() ? "" : ", ",
                      name_of(choice.reduction, choice.inter), name_of(before->reduction, before->inter));
    say("notice: the last bits of sums may differ from the resumed run's: " + changes);
  }
  return choice;
}

TrainOptions with_any_sums(const TrainOptions& options, const World& world, const CommSession& session) {
  const CommCandidate any =
      comm_candidates(options, world.nodes(), world.size(), session.heeds_inter()).front();
  TrainOptions result = with_sums(options, any.reduction, any.inter);
  result.wire = "fp32";
  // A run on CPUs may be evaluated on GPUs, which know no tree.
  if (result.reduction == "tree" && !session.heeds_inter()) result.reduction = "hierarchical";
  return result;
}

}  // namespace gpt
