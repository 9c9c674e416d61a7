#include "train/comm_measure.hpp"

#include "base/stopwatch.hpp"
#include "train/buckets.hpp"
#include "train/comm_plan.hpp"
#include "train/flat_buffers.hpp"
#include "train/read_weights.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace gpt {
namespace {

/// Buckets of one size.
struct EqualBuckets {
  Range first;
  int64_t count = 0;
};

std::vector<EqualBuckets> by_size(const Buckets& buckets) {
  std::vector<EqualBuckets> sizes;
  for (const Range& bucket : buckets.ranges()) {
    const auto known =
        std::ranges::find(sizes, bucket.size(), [](const EqualBuckets& equal) { return equal.first.size(); });
    if (known == sizes.end())
      sizes.push_back({.first = bucket, .count = 1});
    else
      ++known->count;
  }
  return sizes;
}

/// The sums of one candidate.
class StepSums {
public:
  StepSums(const World& world, CommSession& session, Device& device, const TrainOptions& options,
           const Layout& layout)
      : world_(world),
        comm_(session.make(comm_plan(options))),
        // All that the run will have: less of it might find room in memory that the run's does not.
        gradients_(memory_for(*comm_, device), DType::f32, {layout.size()}),
        queue_(device.make_communication_queue()) {
    if (options.zero != "0") weights_.emplace(layout, options.matrix_type(), memory_for(*comm_, device));
  }

  /// Seconds of one bucket. The same on all ranks.
  double once(Range bucket) {
    comm_->barrier(*queue_);
    queue_->synchronize();
    const Stopwatch watch;
    const Tensor sum = gradients_->flat(bucket);
    if (!weights_) {
      comm_->all_reduce(sum, sum, *queue_);
    } else {
      comm_->reduce_scatter(sum, *queue_);
      comm_->all_gather(weights_->at(bucket), *queue_);
    }
    queue_->synchronize();
    double seconds = watch.seconds();
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, world_.world()));
    return seconds;
  }

private:
  const World& world_;
  std::unique_ptr<Comm> comm_;
  TensorBuffer gradients_;
  std::optional<ReadWeights> weights_;  // with ZeRO
  std::unique_ptr<Queue> queue_;        // its end comes before that of what it works on
};

/// What was measured of a candidate so far.
class Times {
public:
  explicit Times(const std::vector<EqualBuckets>& sizes) : sizes_(sizes), least_(sizes.size(), unknown) {}

  /// Whether there is time for more.
  bool wants_more() const { return spent_ < patience; }

  void measure(StepSums& sums) {
    for (size_t i = 0; i < sizes_.size(); ++i) measure(sums, sizes_[i].first, least_[i]);
  }

  double of_step() const {
    double all = 0.0;
    for (size_t i = 0; i < sizes_.size(); ++i) all += least_[i] * static_cast<double>(sizes_[i].count);
    return all;
  }

private:
  static constexpr double unknown = std::numeric_limits<double>::infinity();
  static constexpr double patience = 1.0;  ///< seconds for a candidate
  static constexpr double turn = 0.02;     ///< and for a size in a turn

  void measure(StepSums& sums, Range bucket, double& least) {
    // The first time connects and touches; it counts if it has to.
    const double first = take(sums, bucket);
    for (double seconds = 0.0; seconds < turn && wants_more();) {
      const double time = take(sums, bucket);
      least = std::min(least, time);
      seconds += time;
    }
    if (least == unknown) least = first;
  }

  double take(StepSums& sums, Range bucket) {
    const double seconds = sums.once(bucket);
    spent_ += seconds;
    return seconds;
  }

  const std::vector<EqualBuckets>& sizes_;
  std::vector<double> least_;
  double spent_ = 0.0;
};

}  // namespace

void measure_candidates(const World& world, CommSession& session, Device& device, const TrainOptions& options,
                        std::vector<CommCandidate>& candidates) {
  constexpr int turns = 3;
  const Layout layout(options.model);
  const Buckets buckets(layout, options.bucket_bytes());
  const std::vector<EqualBuckets> sizes = by_size(buckets);
  std::vector<Times> times(candidates.size(), Times(sizes));
  for (int i = 0; i < turns; ++i)
    for (size_t c = 0; c < candidates.size(); ++c)
      if (times[c].wants_more()) {
        // Made anew for each turn: room for the gradients of all candidates at once might not be there.
        StepSums sums(world, session, device,
                      with_sums(options, candidates[c].reduction, candidates[c].inter), layout);
        times[c].measure(sums);
      }
  for (size_t c = 0; c < candidates.size(); ++c) candidates[c].seconds = times[c].of_step();
}

}  // namespace gpt
