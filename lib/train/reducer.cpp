#include "train/reducer.hpp"

#include "base/contracts.hpp"

#include <optional>

namespace gpt {

Reducer::Reducer(const Layout& layout, Comm& comm, Device& device, Tensor gradients, int64_t bucket_bytes)
    : comm_(comm),
      ops_(device.ops()),
      gradients_(gradients),
      bucket_of_section_(layout.sections().size()),
      block_sums_(device, DType::f64, {ceil_div(layout.size(), Layout::block)}),
      queue_(device.make_communication_queue()),
      gradients_ready_(device.make_event()),
      reduced_(device.make_event()) {
  const auto add = [&](int64_t section) {
    const Range range = layout.sections()[static_cast<size_t>(section)].range;
    const bool joins = !buckets_.empty() && range.end == buckets_.back().begin &&
                       buckets_.back().size() * size_of(gradients.dtype()) < bucket_bytes;
    if (joins) {
      buckets_.back().begin = range.begin;
      ++sections_in_bucket_.back();
    } else {
      buckets_.push_back(range);
      sections_in_bucket_.push_back(1);
    }
    bucket_of_section_[static_cast<size_t>(section)] = static_cast<int64_t>(buckets_.size()) - 1;
  };
  // The order in which backward finishes them.
  add(layout.norm_section());
  for (int64_t block = layout.norm_section() - 1; block >= 0; --block) add(layout.block_section(block));
  add(layout.embedding_section());
}

void Reducer::begin_micro(bool last, Queue& compute) {
  compute_ = last ? &compute : nullptr;
  sections_missing_ = sections_in_bucket_;
}

void Reducer::after_gradients(int64_t section) {
  if (compute_ == nullptr) return;
  const int64_t bucket = bucket_of_section_[static_cast<size_t>(section)];
  if (--sections_missing_[static_cast<size_t>(bucket)] > 0) return;
  reduce(gradients_.flat(buckets_[static_cast<size_t>(bucket)]));
}

void Reducer::finish(Tensor scalars, double max_norm, Queue& compute) {
  expects(compute_ == &compute);
  const auto loss = static_cast<int64_t>(StepScalar::loss_sum);
  reduce(scalars.flat({loss, loss + 1}));
  queue_->record(*reduced_);
  {
    std::optional<StepClock::Wait> wait;
    if (clock_ != nullptr) wait.emplace(*clock_);
    compute.wait(*reduced_);
  }
  ops_.square_sums(block_sums_, gradients_, compute);
  ops_.clip_scale(scalars, block_sums_, max_norm, compute);
}

void Reducer::reduce(Tensor data) {
  compute_->record(*gradients_ready_);
  queue_->wait(*gradients_ready_);
  StepClock* const clock = clock_;
  if (clock != nullptr) queue_->host([clock] { clock->begin_reduction(); });
  comm_.all_reduce(data, data, *queue_);
  if (clock != nullptr) queue_->host([clock] { clock->end_reduction(); });
}

}  // namespace gpt
