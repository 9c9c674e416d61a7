#include "train/parameter_gather.hpp"

#include "base/contracts.hpp"

namespace gpt {

ParameterGather::ParameterGather(const Buckets& buckets, Comm& comm, Device& device, const Weights& weights,
                                 CommunicationQueue& communication)
    : buckets_(buckets),
      comm_(comm),
      weights_(weights),
      communication_(communication),
      pending_(static_cast<size_t>(buckets.count())) {
  for (Pending& bucket : pending_) bucket.gathered = device.make_event();
}

void ParameterGather::start(int64_t bucket, Queue& compute) {
  Pending& pending = pending_[static_cast<size_t>(bucket)];
  expects(pending.compute == nullptr);
  communication_.start(compute,
                       [&](Queue& queue) { comm_.all_gather(weights_.read(buckets_[bucket]), queue); });
  communication_.record(*pending.gathered);
  pending.compute = &compute;
}

void ParameterGather::wait(int64_t bucket) {
  Pending& pending = pending_[static_cast<size_t>(bucket)];
  if (pending.compute == nullptr) return;
  communication_.wait(*pending.compute, *pending.gathered);
  pending.compute = nullptr;
}

void ParameterGather::wait_for_all() {
  for (int64_t bucket = 0; bucket < buckets_.count(); ++bucket) wait(bucket);
}

}  // namespace gpt
