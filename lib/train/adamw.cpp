#include "train/adamw.hpp"

#include <algorithm>

namespace gpt {

AdamW::AdamW(const Layout& layout, Device& device, Tensor params, Tensor gradients,
             const TrainOptions& options)
    : layout_(layout),
      ops_(device.ops()),
      params_(params),
      gradients_(gradients),
      m_(device, DType::f32, {layout.size()}),
      v_(device, DType::f32, {layout.size()}),
      rates_{.beta1 = static_cast<float>(options.beta1),
             .beta2 = static_cast<float>(options.beta2),
             .eps = static_cast<float>(options.eps),
             .weight_decay = static_cast<float>(options.weight_decay)} {}

void AdamW::step(int64_t step, double learning_rate, Tensor scalars, const std::vector<Range>& ranges,
                 Queue& queue) {
  AdamWStep rates = rates_;
  rates.lr = static_cast<float>(learning_rate);
  rates.step = step + 1;
  const auto update = [&](Range range, float decay) {
    if (range.empty()) return;
    rates.weight_decay = decay;
    ops_.adamw(params_.flat(range), {}, m_->flat(range), v_->flat(range), gradients_.flat(range), scalars,
               rates, queue);
  };
  for (const Range& range : ranges) {
    for (const Section& section : layout_.sections()) {
      const Range part{std::max(range.begin, section.range.begin), std::min(range.end, section.range.end)};
      update({part.begin, std::min(part.end, section.decay_end)}, rates_.weight_decay);
      update({std::max(part.begin, section.decay_end), part.end}, 0.0F);
    }
  }
}

std::vector<NamedTensor> AdamW::state() const { return {{"m", m_}, {"v", v_}}; }

}  // namespace gpt
