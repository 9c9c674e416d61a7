#pragma once

#include "comm/world.hpp"
#include "train/console.hpp"
#include "train/gpu_readings.hpp"
#include "train/journal.hpp"
#include "train/memory.hpp"
#include "train/preparation.hpp"
#include "train/progress.hpp"
#include "train/rank_times.hpp"
#include "train/step_scalars.hpp"
#include "train/stragglers.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace gpt {

/// What a run says of itself while it is under way: its log, progress for people, times of ranks and
/// readings of GPUs.
class RunReport {
public:
  /// Opens the log in the folder, and says what begins. Keeps references to world, console and the run's
  /// options. Collective.
  /// @param device      this rank's, for people
  /// @param parameters  of the model, without padding
  /// @param memory      what this rank has allocated
  RunReport(const World& world, Console& console, const PreparedRun& run, const std::string& device,
            int64_t parameters, const MemoryEstimate& memory, const std::string& run_folder);

  /// Null on all ranks but the root.
  Journal* journal() { return journal_ ? &*journal_ : nullptr; }

  /// A step begins, from 1.
  void begin_step(int64_t step);
  /// A step was given to the device: all that is known of it but loss and norm.
  void give(const StepRecord& record) { given_ = record; }

  /// The optimizer took the step that was given last. @param loss  per token
  void take(int64_t step, double loss, double grad_norm);
  /// How long a step took on this rank.
  void time(int64_t step, const StepTimes& times);

  /// Nothing more is measured; what is under way is still reported. Collective.
  void finish();
  /// The run is at its end. Collective.
  void end(int64_t step);

private:
  bool is_logged(int64_t step) const { return options_.log_every > 0 && step % options_.log_every == 0; }
  void report(const std::optional<IntervalTimes>& times);

  const World& world_;
  Console& console_;
  const TrainOptions& options_;
  const int64_t parameters_;
  Progress progress_;
  StepRecord given_;
  std::optional<Journal> journal_;  // root only
  std::optional<GpuReadings> gpu_;
  std::optional<Stragglers> stragglers_;  // with several ranks, as the next
  std::optional<RankTimes> rank_times_;
};

}  // namespace gpt
