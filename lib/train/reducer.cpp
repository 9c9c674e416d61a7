#include "train/reducer.hpp"

#include "base/contracts.hpp"

#include <utility>

namespace gpt {

Reducer::Reducer(const Layout& layout, Comm& comm, Device& device, Tensor gradients, int64_t bucket_bytes)
    : Reducer(layout, comm, device, gradients, Buckets(layout, bucket_bytes),
              all_parts(Buckets(layout, bucket_bytes)), nullptr, nullptr) {}

Reducer::Reducer(const Layout& layout, Comm& comm, Device& device, const FlatBuffers& buffers,
                 GradientTree* tree)
    : Reducer(layout, comm, device, buffers.gradients, buffers.buckets, buffers.owned, &buffers.weights,
              tree) {}

Reducer::Reducer(const Layout& layout, Comm& comm, Device& device, Tensor gradients, Buckets buckets,
                 OwnedParts parts, const Weights* weights, GradientTree* tree)
    : comm_(comm),
      ops_(device.ops()),
      gradients_(gradients),
      buckets_(std::move(buckets)),
      parts_(std::move(parts)),
      padding_(layout.padding()),
      tree_(tree),
      block_sums_(device, DType::f64, {ceil_div(layout.size(), Layout::block)}),
      vectors_(buckets_.of_section(layout.vector_section())),
      own_sums_(device, DType::f64,
                {ceil_div(buckets_[vectors_].size(), Layout::block) *
                 (tree == nullptr ? int64_t{1} : tree->most_subtrees())}),
      reduced_(device.make_event()),
      communication_(device) {
  if (parts_.sharded) gather_.emplace(buckets_, comm, device, *weights, communication_);
}

Write Reducer::begin_micro(bool last, Queue& compute) {
  const bool first = std::exchange(step_begins_, false);
  compute_ = last ? &compute : nullptr;
  sections_missing_ = buckets_.section_counts();
  // Backward does not write there, and the last reduce_scatter left anything in it.
  if (first && parts_.sharded)
    for (const Range& gap : padding_) compute.zero(gradients_.flat(gap));
  if (tree_ == nullptr) return first ? Write::overwrite : Write::accumulate;
  if (first)
    compute.zero(tree_->losses());
  else
    tree_->take_leaf(compute);
  return Write::overwrite;
}

Tensor Reducer::loss_of_micro(Tensor scalars) const {
  constexpr auto loss = static_cast<int64_t>(StepScalar::loss_sum);
  return tree_ != nullptr ? tree_->next_loss() : scalars.flat({loss, loss + 1});
}

void Reducer::after_gradients(int64_t section) {
  if (compute_ == nullptr) return;
  const int64_t bucket = buckets_.of_section(section);
  if (--sections_missing_[static_cast<size_t>(bucket)] == 0) reduce(bucket);
}

void Reducer::reduce(int64_t bucket) {
  const Tensor sum = gradients_.flat(buckets_[bucket]);
  const std::vector<Tensor> summands =
      tree_ != nullptr ? tree_->subtrees(buckets_[bucket], *compute_) : std::vector{sum};
  if (bucket == vectors_ && comm_.size() > 1) square_own(summands);
  const Receivers receivers = parts_.sharded ? Receivers::owners : Receivers::all;
  communication_.start(*compute_, [&](Queue& queue) { comm_.sum(sum, summands, receivers, queue); });
}

/// Of what is not finite in a sum nobody can tell any more where it came from. To read all gradients once
/// more would cost some percent of a step; the vectors are few, and backward carries what is not finite
/// through those of all blocks before.
void Reducer::square_own(const std::vector<Tensor>& summands) {
  int64_t first = 0;
  for (const Tensor& summand : summands) {
    const int64_t blocks = ceil_div(summand.size(), Layout::block);
    ops_.square_sums(own_sums_->flat({first, first + blocks}), summand, *compute_);
    first += blocks;
  }
}

void Reducer::sum_over_ranks(Tensor data, Queue& compute) {
  communication_.start(compute, [&](Queue& queue) { comm_.all_reduce(data, data, queue); });
  communication_.record(*reduced_);
  communication_.wait(compute, *reduced_);
}

void Reducer::finish(Tensor scalars, const StepLimits& limits, Queue& compute) {
  expects(compute_ == &compute);
  constexpr auto own = static_cast<int64_t>(StepScalar::own_loss);
  const Tensor own_loss = scalars.flat({own, own + 1});
  if (tree_ == nullptr)
    compute.copy(own_loss, loss_of_micro(scalars));
  else
    ops_.sum_in_order(own_loss, tree_->losses(), compute);  // of this rank's leaves, until they are summed
  constexpr auto squares = static_cast<int64_t>(StepScalar::own_squares);
  if (comm_.size() > 1) ops_.sum_in_order(scalars.flat({squares, squares + 1}), own_sums_, compute);
  sum_over_ranks(scalars.flat({0, own}), compute);
  if (tree_ != nullptr) {
    const Tensor loss = tree_->losses();
    sum_over_ranks(loss, compute);  // exact: all terms but one are 0
    constexpr auto sum = static_cast<int64_t>(StepScalar::loss_sum);
    ops_.sum_in_order(scalars.flat({sum, sum + 1}), loss, compute);
    tree_->restart();
  }
  sum_squares(compute);
  ops_.clip_scale(scalars, block_sums_, limits, compute);
  step_begins_ = true;
}

void Reducer::sum_squares(Queue& compute) {
  if (!parts_.sharded) return ops_.square_sums(block_sums_, gradients_, compute);
  compute.zero(block_sums_);
  for (const Range& range : parts_.counted) {
    const Range blocks{range.begin / Layout::block, ceil_div(range.end, Layout::block)};
    ops_.square_sums(block_sums_->flat(blocks), gradients_.flat(range), compute);
  }
  // Exact: of the terms of each block all but one are 0.
  sum_over_ranks(block_sums_, compute);
}

void Reducer::update(const std::function<void(const std::vector<Range>&)>& step, Queue& compute) {
  for (int64_t bucket = buckets_.count() - 1; bucket >= 0; --bucket) {
    step(parts_.updated[static_cast<size_t>(bucket)]);
    if (gather_) gather_->start(bucket, compute);
  }
}

void Reducer::spread_params(Queue& compute) {
  if (!gather_) return;
  for (int64_t bucket = buckets_.count() - 1; bucket >= 0; --bucket) gather_->start(bucket, compute);
}

void Reducer::before_use(int64_t section) {
  if (gather_) gather_->wait(buckets_.of_section(section));
}

void Reducer::wait_for_params() {
  if (gather_) gather_->wait_for_all();
}

}  // namespace gpt
