#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/step_clock.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace gpt {

/// Sums gradients over the ranks, bucket by bucket, as the model announces finished sections; the same code
/// for every backend. A bucket is a range of the flat gradients: sections that finish one after the other and
/// lie side by side, until they are `bucket_bytes` long.
class Reducer : public SectionListener {
public:
  Reducer(const Layout& layout, Comm& comm, Device& device, Tensor gradients, int64_t bucket_bytes);

  /// Whether the gradients of the micro-batch that now begins are the step's last: only those are reduced.
  void begin_micro(bool last, Queue& compute);

  void after_gradients(int64_t section) override;

  /// Sums the loss as well, waits for all buckets (on the queue, not on the host), and leaves gradient norm,
  /// clip scale and finite flag in `scalars` (f64, StepScalar::count), whose loss_sum is this rank's until
  /// then.
  void finish(Tensor scalars, double max_norm, Queue& compute);

  /// From now on `clock` hears when the host waits and when sums are under way; null: nobody does.
  void measure(StepClock* clock) { clock_ = clock; }

  const std::vector<Range>& buckets() const { return buckets_; }

private:
  void reduce(Tensor data);

  Comm& comm_;
  Ops& ops_;
  Tensor gradients_;
  std::vector<Range> buckets_;
  std::vector<int64_t> bucket_of_section_;  // index into buckets_
  std::vector<int64_t> sections_in_bucket_;
  std::vector<int64_t> sections_missing_;  // of each bucket, in this micro-batch
  TensorBuffer block_sums_;                // f64, one for each block of the Layout
  std::unique_ptr<Queue> queue_;           // of communication
  std::unique_ptr<Event> gradients_ready_;
  std::unique_ptr<Event> reduced_;
  StepClock* clock_ = nullptr;
  Queue* compute_ = nullptr;  // of the micro-batch under way; null when it is not the last
};

}  // namespace gpt
