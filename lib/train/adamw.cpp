#include "train/adamw.hpp"

namespace gpt {

AdamWStep adamw_rates(const TrainOptions& options) {
  return {.beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .eps = static_cast<float>(options.eps),
          .weight_decay = static_cast<float>(options.weight_decay),
          .rounding = options.weight_rounding()};
}

AdamW::AdamW(const Layout& layout, Device& device, const Weights& weights, Tensor gradients,
             const AdamWStep& rates, const OwnedParts& owned)
    : layout_(layout),
      ops_(device.ops()),
      weights_(weights),
      gradients_(gradients),
      parts_(owned.all_updated()),
      sharded_(owned.sharded),
      m_(device, DType::f32, {parts_.size()}),
      v_(device, DType::f32, {parts_.size()}),
      rates_(rates) {}

void AdamW::step(int64_t step, double learning_rate, Tensor scalars, const std::vector<Range>& ranges,
                 Queue& queue) {
  AdamWStep rates = rates_;
  rates.lr = static_cast<float>(learning_rate);
  rates.step = step + 1;
  rates.rounding.step = rates.step;
  for (const Range& range : ranges) {
    rates.weight_decay = range.begin < layout_.matrices().end ? rates_.weight_decay : 0.0F;
    rates.rounding.first = range.begin;
    const Range held = parts_.at(range);
    ops_.adamw(weights_.master(range), weights_.rounded(range), m_->flat(held), v_->flat(held),
               gradients_.flat(range), scalars, rates, queue);
  }
}

DeviceState AdamW::state_of(std::string name, Tensor tensor) const {
  return {.name = std::move(name), .shards = parts_.shards(tensor), .shared_out = sharded_};
}

std::vector<DeviceState> AdamW::state() const { return {state_of("m", m_), state_of("v", v_)}; }

}  // namespace gpt
