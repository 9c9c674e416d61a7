#pragma once

#include "bench/operator_times.hpp"
#include "bench/silent_comm.hpp"
#include "comm/comm.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/device_state.hpp"
#include "train/options.hpp"
#include "train/training_step.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// When gradients travel.
enum class Reducing {
  overlapped,  ///< as training does it: a bucket when it is complete
  afterwards,  ///< the same buckets, once backward is over
  none,        ///< every rank keeps its own
};

struct StepSetup {
  GptConfig config;
  int64_t sequences = 1;    ///< of this rank
  int64_t micro_batch = 1;  ///< sequences at a time, at most
  int64_t global_batch = 1;
  int threads = 1;
  std::optional<int> gpu = {};  ///< which of the visible ones; for one rank
  bool cudnn_attention = false;
  CommPlan plan;
  int64_t bucket_bytes = TrainOptions{}.bucket_bytes();
  DType type = DType::f32;  ///< of activations and what matrix products read
  WeightRounding rounding = {};
  Recompute recompute = Recompute::none;
  bool sharded = false;  ///< ZeRO-1: the optimizer's work is divided as plan.sharding says
};

/// Training steps of this program on random tokens.
class OwnStep {
public:
  /// Collective over the world. @param times  where given, of each operation while it is on; outlives this
  OwnStep(const World& world, const StepSetup& setup, OperatorTimes* times = nullptr);

  /// What one step took.
  struct Took {
    double seconds = 0.0;
    double backward = 0.0;       ///< seconds of the last micro-batch's forward and backward
    double other_threads = 0.0;  ///< CPU seconds of all threads but this one
    std::vector<double> ready;   ///< by section, seconds after that micro-batch began
    double grad_norm = 0.0;      ///< before clipping
  };
  /// One step; all ranks the same kind.
  Took operator()(Reducing how);

  /// Seconds of each of so many steps as training does them.
  std::vector<double> round(int64_t steps);

  /// Waits for what the last step left under way: parameters that others updated. Collective.
  void settle();

  /// What a checkpoint of it holds, changed by work in queue().
  std::vector<DeviceState> state() const { return training_.state(); }
  Queue& queue() { return *queue_; }
  const Layout& layout() const { return layout_; }
  /// Room for this rank's part of that on the host; outlived by this.
  SavedParts saved_parts();

  /// Bytes of gradients by section, in the order in which backward finishes them.
  std::vector<int64_t> section_bytes() const;

private:
  std::unique_ptr<Device> device_;
  bool alone_;  ///< on a GPU, whose memory MPI cannot read: one rank, which has nothing to sum
  SilentComm comm_;
  Layout layout_;
  std::unique_ptr<Queue> queue_;
  TrainingStep training_;
  TensorBuffer tokens_;
  int64_t step_ = 0;
};

/// The model of a preset with another context and vocabulary, without dropout.
/// @param option  that named the preset. @throws Error(usage)
GptConfig bench_config(const std::string& preset, int64_t context, int64_t vocabulary,
                       const std::string& option = "preset");

/// Defaults without anything that a run would choose by measuring.
TrainOptions fixed_plan();
/// @throws Error(usage) where the plan of sums leaves a choice, or is the tree
void check_fixed_plan(const TrainOptions& options);

/// Says on standard error what is slow about a precision on this machine. Only the root speaks.
void warn_of_precision(const World& world, DType type);

}  // namespace gpt
