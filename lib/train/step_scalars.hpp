#pragma once

#include "device/device.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

namespace gpt {

/// A step's scalars on the device, and the host's view of them one step later, so that the host never waits
/// inside a step.
class StepScalars {
public:
  struct Values {
    int64_t step = 0;
    double loss_sum = 0.0;
    double grad_norm = 0.0;
    bool accepted = true;   ///< the optimizer took the step
    double own_loss = 0.0;  ///< this rank's part of loss_sum
    double own_squares =
        0.0;  ///< of the vectors in this rank's part of the gradients; 0 on a rank that is alone
    int stop_votes = 0, save_votes = 0, due_votes = 0;  ///< ranks that said so
  };

  explicit StepScalars(Device& device);

  Tensor device() const { return device_; }

  /// All to zero: a step begins.
  void reset(Queue& queue);

  /// This rank votes in the step that has begun, before its sums: one of the scalars that are votes.
  void vote(StepScalar scalar, Queue& queue);

  /// The step's values are on their way to the host.
  void send(int64_t step, Queue& queue);

  /// The step whose values receive(drain) gives; nothing when it gives none.
  std::optional<int64_t> due(bool drain) const;

  /// Values of the send before the last one, or of the last one when `drain`; nothing when there is none that
  /// was not received yet. Waits for that copy only.
  std::optional<Values> receive(bool drain);

private:
  static constexpr size_t count = static_cast<size_t>(StepScalar::count);

  struct Slot {
    std::array<double, count> values{};
    std::unique_ptr<Event> arrived;
    int64_t step = 0;
    bool pending = false;
  };

  TensorBuffer device_;
  std::array<Slot, 2> slots_;
  size_t last_ = 1;
};

}  // namespace gpt
