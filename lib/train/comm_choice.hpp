#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What `auto` in --reduction and --inter came to. It decides about the last bits of sums, so it is made once
/// and goes with the run: while the situation is the same, a resumed run takes it over instead of measuring
/// anew.
struct CommChoice {
  std::string
      situation;  ///< all else that such bits depend on: ranks, their layout, device, threads, options
  std::string reduction;  ///< a value of --reduction other than auto
  std::string inter;      ///< and of --inter

  bool operator==(const CommChoice&) const = default;
};

std::string to_text(const CommChoice& choice);

/// Nothing unless `text` is what to_text writes.
std::optional<CommChoice> parse_comm_choice(const std::string& text);

/// One way of summing that `options` leave open, and how long a sum took.
struct CommCandidate {
  std::string reduction;
  std::string inter;
  double seconds = 0.0;
};

/// The ways that `options` leave open on `nodes` nodes; one if nothing is left open or makes a difference.
std::vector<CommCandidate> comm_candidates(const TrainOptions& options, int nodes, int ranks);

/// Takes `stored` over if its situation is this one, or else the fastest of the candidates for sums of
/// `bytes`, which is a bucket's size. Says what it measured and what changed. Collective.
/// @param stored  from the checkpoint that is resumed; empty: none
CommChoice choose_comm(const World& world, Device& device, const TrainOptions& options, int64_t bytes,
                       const std::string& stored, const std::function<void(const std::string&)>& say);

}  // namespace gpt
