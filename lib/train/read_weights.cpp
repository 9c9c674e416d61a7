#include "train/read_weights.hpp"

#include "base/contracts.hpp"
#include "train/checkpoint.hpp"

namespace gpt {

ReadWeights::ReadWeights(const Layout& layout, DType type, Allocator& memory)
    : layout_(layout),
      f32_(memory, DType::f32, {type == DType::f32 ? layout.size() : layout.vectors().size()}) {
  if (type == DType::f32) {
    matrices_ = f32_->flat(layout.matrices());
    vectors_ = f32_->flat(layout.vectors());
  } else {
    bfloat16_ = TensorBuffer(memory, type, {layout.matrices().size()});
    matrices_ = bfloat16_;
    vectors_ = f32_;
  }
}

Tensor ReadWeights::at(Range elements) const {
  if (contains(layout_.matrices(), elements)) return matrices_.flat(elements);
  expects(contains(layout_.vectors(), elements));
  return vectors_.flat(shifted(elements, -layout_.vectors().begin));
}

void load_weights(const std::string& file, const Layout& layout, const ReadWeights& weights,
                  const WeightRounding& rounding, Device& device, Queue& queue) {
  const auto take = [&](Range elements, Tensor block) {
    for (const Range& kind : {layout.matrices(), layout.vectors()}) {
      const Range part = common(kind, elements);
      if (part.empty()) continue;
      const Tensor to = weights.at(part), from = block.flat(shifted(part, -elements.begin));
      if (to.dtype() == DType::f32) {
        queue.copy(to, from);
        continue;
      }
      const TensorBuffer staged(device, DType::f32, {part.size()});
      queue.copy(staged, from);
      device.ops().round(to, staged, rounding.from(part.begin), queue);
      queue.synchronize();  // before the staging memory goes
    }
    queue.synchronize();  // the block's memory is used again
  };
  read_state(file, layout, {{"params", take}});
}

}  // namespace gpt
