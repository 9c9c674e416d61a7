#pragma once

#include "comm/comm_session.hpp"
#include "comm/node_layout.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/options.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What the bits of sums are a function of, beside the choice: names and values of ranks, device and options.
using CommSituation = std::map<std::string, std::string>;

/// What `auto` in --reduction and --inter came to. It decides about the last bits of sums, so it is made once
/// and goes with the run: while the situation is the same, a resumed run takes it over instead of measuring
/// anew.
struct CommChoice {
  CommSituation situation;
  std::string reduction;  ///< a value of --reduction other than auto
  std::string inter;      ///< and of --inter; empty where none has an effect

  bool operator==(const CommChoice&) const = default;
};

std::string to_text(const CommChoice& choice);

/// Nothing unless `text` is what to_text writes.
std::optional<CommChoice> parse_comm_choice(const std::string& text);

/// With --reduction tree neither ranks nor layout are in it.
CommSituation comm_situation(const NodeOfRank& layout, const std::string& device,
                             const TrainOptions& options);

/// One way of summing that `options` leave open.
struct CommCandidate {
  std::string reduction;
  std::string inter;     ///< empty where none has an effect
  double seconds = 0.0;  ///< that a step's sums take
};

/// The ways that `options` leave open on `nodes` nodes; one if nothing is left open or makes a difference.
/// @param heeds_inter  CommSession::heeds_inter
std::vector<CommCandidate> comm_candidates(const TrainOptions& options, int nodes, int ranks,
                                           bool heeds_inter);

/// The one that took the least time; but the first one, unless that time is clearly less: what is measured
/// before the first step scatters. @param candidates  at least one
const CommCandidate& preferred(const std::vector<CommCandidate>& candidates);

/// `before`, if it was made in this situation and is still one of the candidates.
std::optional<CommChoice> still_valid(const std::optional<CommChoice>& before, const CommSituation& situation,
                                      const std::vector<CommCandidate>& candidates);

/// `options` with a choice or a candidate in place of what they leave open.
TrainOptions with_sums(const TrainOptions& options, const std::string& reduction, const std::string& inter);

/// Takes `stored` over while that is valid, or else measures the candidates (measure_candidates) and takes
/// the preferred one. Says what it measured and what changed. Collective; an error on one rank ends the job
/// by itself.
/// @param options  their model complete
/// @param stored   from the checkpoint that is resumed; empty: none
CommChoice choose_comm(const World& world, CommSession& session, Device& device, const TrainOptions& options,
                       const std::string& stored, const std::function<void(const std::string&)>& say);

/// `options` with the first candidate in place of `auto`, for work in which the time of sums does not matter.
TrainOptions with_any_sums(const TrainOptions& options, const World& world, const CommSession& session);

}  // namespace gpt
