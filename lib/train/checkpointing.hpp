#pragma once

#include "base/stopwatch.hpp"
#include "comm/world.hpp"
#include "train/console.hpp"
#include "train/journal.hpp"
#include "train/options.hpp"
#include "train/run_folder.hpp"
#include "train/save_interval.hpp"
#include "train/saver.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// A run's saves: begins them, hears how they ended, says so, and ends the run when too many fail in a row.
class Checkpointing {
public:
  /// @param steps       of the run, for people
  /// @param saved       the checkpoint that the run goes on from, and its step; empty, and -1: none
  /// @param bytes       of a checkpoint, about
  Checkpointing(const World& world, Console& console, const TrainOptions& options, int64_t steps,
                std::string saved, int64_t saved_step, int64_t bytes, std::unique_ptr<Saver> saver);

  /// What a run has while it is under way: its folder and its log. Root only; neither is needed.
  void attach(const RunFolder* folder, Journal* journal);

  /// Saves the state as it is after all that was given to `compute`. An earlier save is heard first; with
  /// `--save sync` this one, too. Collective.
  /// @throws SharedError(saving_failed) as hear
  void begin(const CheckpointHeader& header, const std::vector<DeviceState>& states, Queue& compute,
             SavePlaces places = {});

  /// Work given to `compute` from now on may change the state.
  void protect(Queue& compute);

  /// A step of training took so many seconds.
  void took_step(double seconds);

  /// With `--save-every auto`: it is time for the next save. The root's to say.
  bool is_due() const;

  /// There is something to hear, and no rank will wait long for it: the root's to say.
  bool has_news() const;

  /// Waits for the save under way, if there is one, and says how it ended. Collective.
  /// @throws SharedError(saving_failed) when it is the last in a row that may fail
  void hear();

  /// The same when an error that all ranks hold is on its way: without another one.
  void settle() noexcept;

  /// Seconds until one more save would be over, read back, at the most that saves took so far; before the
  /// first, what its bytes take on a slow disk. One that is under way comes first.
  double next_save() const;

  /// The newest checkpoint of this start: saved, or gone on from. Empty: none.
  const std::string& saved() const { return saved_; }
  int64_t saved_step() const { return saved_step_; }

private:
  bool is_writing() const { return saver_ && saver_->under_way() && !saver_->has_ended(); }
  bool is_writing_to_disk() const { return is_writing() && to_disk_; }
  bool holds_folder(int64_t step);
  void measure(const SaveEnd& end);
  void take(const SaveEnd& end);
  void report(const SaveEnd& end);
  void report_memory(const SaveEnd& end);

  const World& world_;
  Console& console_;
  const TrainOptions& options_;
  const int64_t steps_;
  std::string saved_;
  int64_t saved_step_;
  int64_t failures_ = 0;                  // in a row
  double stall_ = 0.0;                    // of the save under way
  bool to_disk_ = false;                  // likewise: not into memory alone
  int64_t saves_ = 0;                     // that succeeded
  double longest_;                        // of them, seconds
  std::optional<SaveInterval> interval_;  // with --save-every auto
  Stopwatch since_save_;                  // since training went on after the last one had begun
  const RunFolder* folder_ = nullptr;
  Journal* journal_ = nullptr;
  std::unique_ptr<Saver> saver_;
};

}  // namespace gpt
