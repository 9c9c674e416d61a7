#pragma once

#include "comm/world.hpp"
#include "device/gpu_status.hpp"
#include "train/step_clock.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace gpt {

/// Mean times of a step over some steps, of every rank.
struct IntervalTimes {
  int64_t step = 0;   ///< the last one
  int64_t steps = 0;  ///< how many
  std::vector<StepTimes> of_rank;
  std::vector<GpuStatus> gpu_of_rank = {};  ///< at the last step
};

/// Brings the step times of all ranks to rank 0, interval by interval, without any rank waiting: the messages
/// (some 70 bytes a rank) travel while the next steps compute.
class RankTimes {
public:
  /// @param interval  steps
  /// Collective over the world.
  RankTimes(const World& world, int64_t interval);
  /// Messages that are under way are left when an exception passes; otherwise waits for them. Collective.
  ~RankTimes();
  RankTimes(const RankTimes&) = delete;
  RankTimes& operator=(const RankTimes&) = delete;

  /// @param step  from 1; all ranks add the same steps
  /// @param gpu   this rank's, as far as it is known; that of an interval's last step counts
  void add(int64_t step, const StepTimes& times, const GpuStatus& gpu = {});

  /// Whether an interval was not received yet; the same on all ranks once all have added their last step.
  bool pending() const { return !gathers_->empty(); }

  /// The oldest interval that has arrived and was not received yet; on rank 0 only. At the end with `wait`:
  /// arrived or not; collective then.
  std::optional<IntervalTimes> receive(bool wait = false);

private:
  static constexpr int times_sent = 4;
  static constexpr int values = times_sent + static_cast<int>(gpu_fields.size());

  struct Gather {
    MPI_Request request = MPI_REQUEST_NULL;
    int64_t step = 0, steps = 0;
    std::vector<double> mine, all;  // all: of every rank, on rank 0
  };

  const World& world_;
  const int64_t interval_;
  CommHandle comm_;
  StepTimes sum_;
  int64_t steps_ = 0;
  std::unique_ptr<std::deque<Gather>> gathers_;  // MPI holds on to what is in there
};

}  // namespace gpt
