#pragma once

#include "comm/node_layout.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/options.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What `auto` in --reduction and --inter came to. It decides about the last bits of sums, so it is made once
/// and goes with the run: while the situation is the same, a resumed run takes it over instead of measuring
/// anew.
struct CommChoice {
  std::string situation;  ///< all else that such bits depend on, as comm_situation has it
  std::string reduction;  ///< a value of --reduction other than auto
  std::string inter;      ///< and of --inter

  bool operator==(const CommChoice&) const = default;
};

std::string to_text(const CommChoice& choice);

/// Nothing unless `text` is what to_text writes.
std::optional<CommChoice> parse_comm_choice(const std::string& text);

/// What decides about the bits of sums beside the choice: ranks and their layout, device, threads, options.
std::string comm_situation(const NodeOfRank& layout, const std::string& device, const TrainOptions& options);

/// One way of summing that `options` leave open, and how long a sum took.
struct CommCandidate {
  std::string reduction;
  std::string inter;
  double seconds = 0.0;
};

/// The ways that `options` leave open on `nodes` nodes; one if nothing is left open or makes a difference.
std::vector<CommCandidate> comm_candidates(const TrainOptions& options, int nodes, int ranks);

/// The one that took the least time; the first of several. @param candidates  at least one
const CommCandidate& fastest(const std::vector<CommCandidate>& candidates);

/// `before`, if it was made in this situation and is still one of the candidates.
std::optional<CommChoice> still_valid(const std::optional<CommChoice>& before, const std::string& situation,
                                      const std::vector<CommCandidate>& candidates);

/// Takes `stored` over while that is valid, or else the fastest of the candidates for what a step sends: its
/// buckets of gradients, and with ZeRO its parameters. A few seconds at most, unless that takes longer once.
/// Says what it measured and what changed. Collective; an error on one rank ends the job by itself.
/// @param options  their model complete
/// @param stored   from the checkpoint that is resumed; empty: none
CommChoice choose_comm(const World& world, Device& device, const TrainOptions& options,
                       const std::string& stored, const std::function<void(const std::string&)>& say);

/// `options` with the first candidate in place of `auto`, for work in which the time of sums does not matter.
TrainOptions with_any_sums(const TrainOptions& options, const World& world);

}  // namespace gpt
