#pragma once

#include "comm/pulse.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What a rank last heard of another one.
struct Sighting {
  RankStatus status;
  bool heard = false;       ///< whether `status` was ever received
  double age = 0.0;         ///< seconds since it was received
  double unanswered = 0.0;  ///< seconds since the first question that is still without answer; 0: none
};

/// Why a job is ended.
struct Hang {
  std::optional<int> rank;  ///< the one to blame, if one is
  RankStatus status;        ///< where it stands, or where the others wait for it
  std::string reason;
};

/// Seconds between two looks of the threads that watch.
double watch_period(double timeout);

/// Seconds without an answer after which a rank counts as silent when another one is overdue.
double silence_limit(double timeout);

/// Who waits for whom, once the job as a whole makes no progress: a rank is without a tick for `timeout`
/// seconds, and another one is silent or none at all ticks; or a rank gives no answer for that long. As long
/// as all answer and one ticks, the others wait for it with reason.
/// @param ranks  what rank `own` knows of each; of itself, its own status with age 0
std::optional<Hang> find_hang(int own, const std::vector<Sighting>& ranks,
                              const std::vector<std::string>& hosts, double timeout);

/// "step 12", "save at step 20", "start".
std::string describe(const RankStatus& status);

/// "rank 1", "ranks 0, 2, 3", "ranks 0, 2, 3 and 5 more".
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace gpt
