#include "train/adamw.hpp"

#include "base/contracts.hpp"

#include <algorithm>

namespace gpt {
namespace {

int64_t total_size(const std::vector<Range>& ranges) {
  int64_t size = 0;
  for (const Range& range : ranges) size += range.size();
  return size;
}

}  // namespace

AdamW::AdamW(const Layout& layout, Device& device, const MatrixWeights& weights, Tensor gradients,
             const TrainOptions& options)
    : AdamW(layout, device, weights, gradients, options,
            OwnedParts{.updated = {{{0, layout.size()}}}, .counted = {}}) {}

AdamW::AdamW(const Layout& layout, Device& device, const MatrixWeights& weights, Tensor gradients,
             const TrainOptions& options, const OwnedParts& owned)
    : layout_(layout),
      ops_(device.ops()),
      params_(weights.params()),
      copy_(weights.copy()),
      gradients_(gradients),
      sharded_(owned.sharded),
      m_(device, DType::f32, {total_size(owned.all_updated())}),
      v_(device, DType::f32, {total_size(owned.all_updated())}),
      rates_{.beta1 = static_cast<float>(options.beta1),
             .beta2 = static_cast<float>(options.beta2),
             .eps = static_cast<float>(options.eps),
             .weight_decay = static_cast<float>(options.weight_decay)} {
  int64_t offset = 0;
  for (const Range& range : owned.all_updated()) {
    expects(parts_.empty() || parts_.back().elements.end <= range.begin);
    parts_.push_back({range, offset});
    offset += range.size();
  }
}

void AdamW::step(int64_t step, double learning_rate, Tensor scalars, const std::vector<Range>& ranges,
                 Queue& queue) {
  AdamWStep rates = rates_;
  rates.lr = static_cast<float>(learning_rate);
  rates.step = step + 1;
  for (const Range& range : ranges) {
    // The last part that does not begin behind the range.
    const Part& part = *std::prev(std::ranges::upper_bound(
        parts_, range.begin, {}, [](const Part& candidate) { return candidate.elements.begin; }));
    expects(range.end <= part.elements.end);
    const int64_t shift = part.offset - part.elements.begin;
    const auto update = [&](Range elements, float decay) {
      if (elements.empty()) return;
      const Range held{elements.begin + shift, elements.end + shift};
      rates.weight_decay = decay;
      ops_.adamw(params_.flat(elements), copy_ ? copy_.flat(elements) : Tensor{}, m_->flat(held),
                 v_->flat(held), gradients_.flat(elements), scalars, rates, queue);
    };
    for (const Section& section : layout_.sections()) {
      const Range both{std::max(range.begin, section.range.begin), std::min(range.end, section.range.end)};
      update({both.begin, std::min(both.end, section.decay_end)}, rates_.weight_decay);
      update({std::max(both.begin, section.decay_end), both.end}, 0.0F);
    }
  }
}

DeviceState AdamW::state_of(std::string name, Tensor tensor) const {
  DeviceState state{.name = std::move(name), .shards = {}, .shared_out = sharded_};
  for (const Part& part : parts_)
    state.shards.push_back({part.elements, tensor.flat({part.offset, part.offset + part.elements.size()})});
  return state;
}

std::vector<DeviceState> AdamW::state() const { return {state_of("m", m_), state_of("v", v_)}; }

}  // namespace gpt
