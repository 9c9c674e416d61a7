#pragma once

#include "bench/contender.hpp"
#include "bench/times.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What to measure and how often.
struct CommBench {
  Collective collective = Collective::all_reduce;
  DType dtype = DType::f32;
  std::vector<int64_t> sizes;  ///< bytes of a message, multiples of the dtype's
  std::vector<ContenderPlan> plans;
  bool in_place = true;
  bool out_of_place = true;  ///< all_reduce only
  int64_t iterations = 20;
  int64_t warmup = 5;
  bool exact = false;  ///< every message counts: nothing but `iterations` of them is sent
};

/// One line of the table; complete on the root only.
struct CommResult {
  int64_t bytes = 0;
  std::string contender;
  bool in_place = true;
  Times times;                        ///< seconds, of the slowest rank each
  int64_t wrong = 0;                  ///< elements, over all ranks and checked runs
  std::optional<bool> shared_memory;  ///< inside nodes; none where they have one rank each
};

/// Contenders take turns, message by message, so that what disturbs the machine disturbs all of them.
/// Collective over the world.
std::vector<CommResult> measure_comm(const World& world, Device& device, const CommBench& bench);

}  // namespace gpt
