#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/device_state.hpp"
#include "train/training_step.hpp"

#include <memory>
#include <vector>

namespace gpt::test {

/// All that a training run leaves, on this rank.
struct Outcome {
  std::vector<double> losses, norms;      // of each step
  std::vector<float> weights;             // what this rank's model reads, all of it
  std::vector<std::vector<float>> parts;  // params, m, v: what this rank would save

  bool operator==(const Outcome&) const = default;
};

struct TraineeOptions {
  int64_t micro_batch = 2;
  double bucket_mb = 0.02;
  bool sharded = false;     ///< ZeRO-1
  DType type = DType::f32;  ///< of activations and what matrix products read
  bool stochastic = false;  ///< rounding of weights to `type`
  bool leaves = false;      ///< each micro-batch is a leaf of the tree that the Comm sums along
  /// What the optimizer is started with beside fixed weights: the files of a checkpoint, or empty.
  std::string checkpoint;
  int64_t step = 0;  ///< of the checkpoint
};

/// One rank of a small training run on random tokens.
class Trainee {
public:
  static constexpr int64_t global_batch = 17;  // divides by none of the rank counts
  static const GptConfig& config();

  /// Collective.
  Trainee(Comm& comm, const TraineeOptions& options);

  void train(int64_t steps);

  /// Collective.
  Outcome outcome();

  const Layout& layout() const { return layout_; }
  const Weights& weights() const { return training_.weights(); }
  const Reducer& reducer() const { return training_.reducer(); }
  const AdamW& optimizer() const { return training_.optimizer(); }
  /// Of the state as it is. Collective.
  SavedParts saved_parts();

  static std::vector<Range> leaves_of_ranks(int ranks, int64_t micro_batch);

private:
  void step();

  Comm& comm_;
  Layout layout_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  TrainingStep training_;
  Range mine_;  // sequences
  std::vector<int32_t> tokens_;
  int64_t step_;
  std::vector<double> losses_, norms_;
};

}  // namespace gpt::test
