#include "train/training_step.hpp"

#include <algorithm>
#include <utility>

namespace gpt {

TrainingStep::TrainingStep(const StepSettings& settings, const Layout& layout, Device& device, Comm& comm,
                           Queue& queue, FlatBuffers buffers)
    : settings_(settings),
      queue_(queue),
      buffers_(std::move(buffers)),
      tree_(settings.leaves.empty() ? std::nullopt
                                    : std::optional<GradientTree>(std::in_place, device, buffers_.gradients,
                                                                  settings.leaves, settings.all_leaves)),
      model_(settings.model, device, settings.micro_batch, buffers_.weights.with(buffers_.gradients),
             settings.recompute),
      reducer_(layout, comm, device, buffers_, tree_ ? &*tree_ : nullptr),
      optimizer_(layout, device, buffers_.weights, buffers_.gradients, settings.optimizer, buffers_.owned),
      scalars_(device) {}

void TrainingStep::spread_weights(int64_t step) {
  WeightRounding rounding = settings_.optimizer.rounding;
  rounding.step = step;
  buffers_.weights.round(rounding, queue_);
  if (buffers_.weights.is_divided()) reducer_.spread_params(queue_);
}

void TrainingStep::backward(const Batch& batch, int64_t step, SectionListener& listener) {
  scalars_.reset(queue_);
  MicroStep micro{.scale = 1.0F / static_cast<float>(settings_.tokens),
                  .dropout_seed = settings_.dropout_seed,
                  .step = static_cast<uint32_t>(step)};
  const int64_t sequences = batch.inputs.dim(0);
  for (int64_t first = 0; first < sequences; first += settings_.micro_batch) {
    const Range part{first, std::min(first + settings_.micro_batch, sequences)};
    micro.write = reducer_.begin_micro(part.end == sequences, queue_);
    model_.train({.inputs = batch.inputs.slice(part),
                  .targets = batch.targets.slice(part),
                  .first_sequence = batch.first_sequence + first},
                 reducer_.loss_of_micro(scalars_.device()), micro, listener, queue_);
  }
}

void TrainingStep::finish(StepLimits limits) {
  limits.clip = settings_.clip;
  reducer_.finish(scalars_.device(), limits, queue_);
}

void TrainingStep::update(int64_t step, double learning_rate) {
  reducer_.update(
      [&](const std::vector<Range>& ranges) {
        optimizer_.step(step, learning_rate, scalars_.device(), ranges, queue_);
      },
      queue_);
  scalars_.send(step + 1, queue_);
}

std::vector<DeviceState> TrainingStep::state() const {
  std::vector<DeviceState> states = {buffers_.weights.state()};
  for (DeviceState& moments : optimizer_.state()) states.push_back(std::move(moments));
  return states;
}

}  // namespace gpt
