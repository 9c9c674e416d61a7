#pragma once

#include "base/integers.hpp"
#include "comm/collective_cost.hpp"
#include "model/layout.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt {

/// Gradients that are complete at one moment of a step.
struct ReadyGradients {
  Range elements;
  double ready = 0.0;  ///< seconds after the step's begin
};

/// Where in a step gradients are complete, in the order in which backward finishes them. Time is divided like
/// the multiplications: forward of the blocks, the head forward and backward at once, then backward of the
/// blocks, twice their forward (docs/benchmarks.md). Vectors and embeddings come last, with
/// the first block.
/// @param compute  seconds of forward and backward together
std::vector<ReadyGradients> ready_gradients(const Layout& layout, const GptConfig& config, double compute);

/// The same without knowing the model: `elements` in `layers` equal parts, no head.
std::vector<ReadyGradients> ready_gradients(int64_t elements, int64_t layers, double compute);

/// A message of an all-reduce.
struct Message {
  double ready = 0.0;    ///< seconds after the step's begin
  double seconds = 0.0;  ///< that it takes alone
};

/// Buckets as the Reducer makes them (join_neighbours).
struct Bucket {
  double ready = 0.0;
  double bytes = 0.0;
};
std::vector<Bucket> buckets_of(std::span<const ReadyGradients> sections, int64_t bucket_bytes);

/// When the last of `messages` has travelled: one at a time, in their order, each not before it is ready.
double pipeline_end(std::span<const Message> messages);

/// A training step of one rank.
struct StepShape {
  std::vector<ReadyGradients> gradients;
  double compute = 0.0;    ///< seconds until backward is over
  double optimizer = 0.0;  ///< seconds after communication
  int64_t bucket_bytes = TrainOptions{}.bucket_bytes();
  /// Seconds of a computing core that the communication of a step takes from it, evenly while it goes on: its
  /// thread's, times the ranks that share the core. 0 where it has a core of its own.
  double thread = 0.0;
};

struct StepPrediction {
  double step = 0.0;           ///< seconds
  double communication = 0.0;  ///< seconds of all messages, overlapped or not
  double exposed = 0.0;        ///< seconds that the step is longer than without communication
  double efficiency = 1.0;     ///< against a rank that does not communicate
};

/// What weak scaling to `cluster` gives: the same work on each rank, which all take the same time.
StepPrediction predict_step(const Cluster& cluster, const CommPlan& plan, const StepShape& shape);

}  // namespace gpt
