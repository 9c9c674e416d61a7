#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/buckets.hpp"
#include "train/communication_queue.hpp"
#include "train/flat_buffers.hpp"
#include "train/gradient_tree.hpp"
#include "train/owned_parts.hpp"
#include "train/parameter_gather.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace gpt {

/// Sums gradients over the ranks, bucket by bucket, as the model announces finished sections, and spreads
/// what the optimizer then updates; the same code for every backend.
class Reducer : public SectionListener {
public:
  /// Every rank gets all sums.
  Reducer(const Layout& layout, Comm& comm, Device& device, Tensor gradients, int64_t bucket_bytes);

  /// Every rank gets the sums of what it owns, and what it updates of these is spread by update().
  /// @param buffers  outlive this
  /// @param tree     this rank's leaves, where `comm` sums along the tree over them; null: one sum of its
  ///                 micro-batches
  Reducer(const Layout& layout, Comm& comm, Device& device, const FlatBuffers& buffers, GradientTree* tree);

  /// @param last  whether the gradients of the micro-batch that now begins are the step's last: only those
  ///              are reduced
  /// @return how the model must write them
  Write begin_micro(bool last, Queue& compute);

  /// Where the loss of the micro-batch under way is added. @param scalars  the step's, as for finish
  Tensor loss_of_micro(Tensor scalars) const;

  void after_gradients(int64_t section) override;

  /// Sums the loss and the votes as well, waits for all buckets (on the queue, not on the host), and leaves
  /// gradient norm, clip scale, verdict (accepted) and this rank's own loss and squares (of its vectors) in
  /// `scalars` (f64, StepScalar::count), where loss_sum and votes are this rank's until then.
  void finish(Tensor scalars, const StepLimits& limits, Queue& compute);

  /// Calls step(ranges) for what this rank must update, in the order in which forward uses it, and starts to
  /// spread it. Whoever then uses parameters asks before_use for the section, or wait_for_params.
  void update(const std::function<void(const std::vector<Range>&)>& step, Queue& compute);

  /// Starts to spread the weights as they are, where ranks hold parts of them.
  void spread_params(Queue& compute);

  void before_use(int64_t section) override;
  /// Work given from now on to the queue that started to spread them waits for all parameters; another order
  /// among the ranks' collective calls is possible only after it.
  void wait_for_params();

  /// From now on `clock` hears of waits, and of sums and parameters that are under way; null: nobody does.
  void measure(StepClock* clock) { communication_.measure(clock); }

  const Buckets& buckets() const { return buckets_; }

private:
  Reducer(const Layout& layout, Comm& comm, Device& device, Tensor gradients, Buckets buckets,
          OwnedParts parts, const Weights* weights, GradientTree* tree);

  void reduce(int64_t bucket);
  void square_own(const std::vector<Tensor>& summands);
  void sum_over_ranks(Tensor data, Queue& compute);
  void sum_squares(Queue& compute);

  Comm& comm_;
  Ops& ops_;
  Tensor gradients_;
  const Buckets buckets_;
  const OwnedParts parts_;
  const std::vector<Range> padding_;  // of the Layout
  GradientTree* const tree_;
  std::vector<int64_t> sections_missing_;  // of each bucket, in this micro-batch
  TensorBuffer block_sums_;                // f64, one for each block of the Layout
  const int64_t vectors_;                  // their bucket
  TensorBuffer own_sums_;  // f64, for its blocks in each summand of this rank, before the sums
  std::unique_ptr<Event> reduced_;
  std::optional<ParameterGather> gather_;
  CommunicationQueue communication_;  // its end comes before that of what it works on
  Queue* compute_ = nullptr;          // of the micro-batch under way; null when it is not the last
  bool step_begins_ = true;
};

}  // namespace gpt
