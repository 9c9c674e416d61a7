#pragma once

#include "device/gpu_status.hpp"
#include "train/append_file.hpp"
#include "train/memory.hpp"
#include "train/replica_check.hpp"
#include "train/saver.hpp"
#include "train/stragglers.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What a step was, as logged. Loss is the mean over the global batch's tokens, in nats.
struct StepRecord {
  int64_t step = 0;  ///< steps done, from 1
  double loss = 0.0;
  double learning_rate = 0.0;
  double grad_norm = 0.0;
  int64_t tokens = 0;  ///< seen since the beginning of training
  double seconds = 0.0;
  double data_seconds = 0.0;  ///< of them the first rank waited for its batch
  double tokens_per_second = 0.0;
  std::optional<double> mfu = {};  ///< GpuReadings::mfu
  GpuStatus gpu = {};              ///< the first rank's
};

/// A step that the optimizer did not take.
struct BadStep {
  int64_t step = 0;
  std::string reason;
  std::string action;  ///< stop, skip, rollback
  double loss = 0.0;
  double grad_norm = 0.0;
  std::vector<int> ranks;  ///< whose own loss or gradients are not finite
  Range windows;           ///< of each lane, in its order from the start of training on
};

/// A checkpoint in the memory of the nodes.
struct MemorySave {
  int64_t step = 0;
  int64_t nodes = 0;        ///< that have it
  double seconds = 0.0;     ///< until the first node had it, from when the state had been copied
  double stall = 0.0;       ///< seconds that training stood still for it
  std::string reason = {};  ///< why a node does not have it; empty: all do
};

/// What a rank computes on.
struct RankDevice {
  std::string name;  ///< Device::name
  std::string uuid;  ///< of a GPU; empty: the CPU
};

/// `log.jsonl`: one JSON object a line, each with its `attempt` (1 for the first start of a run, then 2, …),
/// so that after a restart the last line of a step wins. docs/log-format.md lists the events.
class Journal {
public:
  /// Opens or goes on with the file; a line torn by a crash is ended first.
  /// @throws Error naming the file if it cannot be written
  explicit Journal(const std::string& path);

  int64_t attempt() const { return attempt_; }
  /// @param step  done when this attempt starts: lines of later steps from earlier attempts are void
  /// @param devices  of each rank
  void start(int64_t step, int64_t branch, int nodes, int64_t parameters, int64_t steps, int64_t global_batch,
             const std::vector<RankDevice>& devices);
  /// @param host  whose memory holds the file; empty: it is on disk
  void resume(int64_t step, int ranks, const std::string& file, const std::string& host = {});
  void step(const StepRecord& record);
  void eval(int64_t step, double val_loss);
  void ranks(const IntervalTimes& times, const Stragglers& stragglers);
  /// @param stall  seconds that training stood still for it
  void save(const SaveEnd& end, double stall);
  /// How often to save, by what saves have cost: all in seconds.
  void save_interval(int64_t step, double seconds, double cost, double mtbf);
  void memory_save(const MemorySave& save);
  void bad_step(const BadStep& bad);
  /// The ranks' weights were compared in so many seconds. @param difference  nothing: they are alike
  void replicas(int64_t step, double seconds, const std::optional<ReplicaDifference>& difference);
  /// The run goes on from that checkpoint: what the log says of later steps is void.
  void rollback(int64_t step, int64_t branch, const std::string& file);
  /// What the rank with the largest estimate needs.
  void memory(const MemoryEstimate& estimate);
  /// @param peak_bytes  the most that a rank had
  void end(int64_t step, int64_t peak_bytes, int64_t parameters);

private:
  struct Line;
  void write(const Line& line);

  AppendFile file_;
  int64_t attempt_;
};

}  // namespace gpt
