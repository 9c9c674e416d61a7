#include "train/step_scalars.hpp"

#include "base/contracts.hpp"

namespace gpt {

StepScalars::StepScalars(Device& device) : device_(device, DType::f64, {static_cast<int64_t>(count)}) {
  for (Slot& slot : slots_) slot.arrived = device.make_event();
}

void StepScalars::reset(Queue& queue) { queue.zero(device_); }

void StepScalars::vote(StepScalar scalar, Queue& queue) {
  static double one = 1.0;  // where queues may copy from whenever they like
  const auto element = static_cast<int64_t>(scalar);
  queue.copy(device_->flat({element, element + 1}), Tensor(&one, DType::f64, {1}));
}

void StepScalars::send(int64_t step, Queue& queue) {
  last_ = 1 - last_;
  Slot& slot = slots_[last_];
  expects(!slot.pending);
  queue.copy(Tensor(slot.values.data(), DType::f64, {static_cast<int64_t>(count)}), device_);
  queue.record(*slot.arrived);
  slot.step = step;
  slot.pending = true;
}

std::optional<int64_t> StepScalars::due(bool drain) const {
  const Slot& slot = slots_[drain ? last_ : 1 - last_];
  return slot.pending ? std::optional(slot.step) : std::nullopt;
}

std::optional<StepScalars::Values> StepScalars::receive(bool drain) {
  Slot& slot = slots_[drain ? last_ : 1 - last_];
  if (!slot.pending) return std::nullopt;
  slot.arrived->synchronize();
  slot.pending = false;
  const auto value = [&](StepScalar scalar) { return slot.values[static_cast<size_t>(scalar)]; };
  return Values{.step = slot.step,
                .loss_sum = value(StepScalar::loss_sum),
                .grad_norm = value(StepScalar::grad_norm),
                .accepted = value(StepScalar::accepted) != 0.0,
                .own_loss = value(StepScalar::own_loss),
                .own_squares = value(StepScalar::own_squares),
                .stop_votes = static_cast<int>(value(StepScalar::stop_votes)),
                .save_votes = static_cast<int>(value(StepScalar::save_votes)),
                .due_votes = static_cast<int>(value(StepScalar::due_votes))};
}

}  // namespace gpt
