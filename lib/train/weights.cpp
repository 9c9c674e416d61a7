#include "train/weights.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <utility>

namespace gpt {
namespace {

bool within(Range range, Range outer) { return outer.begin <= range.begin && range.end <= outer.end; }

/// What of `ranges` lies in `outer`.
std::vector<Range> parts_within(const std::vector<Range>& ranges, Range outer) {
  std::vector<Range> parts;
  for (const Range& range : ranges) {
    const Range part{std::max(range.begin, outer.begin), std::min(range.end, outer.end)};
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

}  // namespace

SpreadWeights::SpreadWeights(const Layout& layout, DType type, Allocator& memory)
    : f32(memory, DType::f32, {type == DType::f32 ? layout.size() : layout.vectors().size()}) {
  if (type != DType::f32) bfloat16 = TensorBuffer(memory, type, {layout.matrices().size()});
}

Weights::Weights(const Layout& layout, Device& device, DType type)
    : layout_(layout), ops_(device.ops()), f32_(device, DType::f32, {layout.size()}) {
  if (type != DType::f32) bfloat16_ = TensorBuffer(device, type, {layout.matrices().size()});
  matrices_ = *bfloat16_ ? *bfloat16_ : f32_->flat(layout.matrices());
  vectors_ = f32_->flat(layout.vectors());
}

Weights::Weights(const Layout& layout, Device& device, const OwnedParts& owned, SpreadWeights spread)
    : layout_(layout),
      ops_(device.ops()),
      f32_(std::move(spread.f32)),
      bfloat16_(std::move(spread.bfloat16)) {
  if (!*bfloat16_) {
    matrices_ = f32_->flat(layout.matrices());
    vectors_ = f32_->flat(layout.vectors());
    return;
  }
  packed_.emplace(parts_within(owned.all_updated(), layout.matrices()));
  master_ = TensorBuffer(device, DType::f32, {packed_->size()});
  matrices_ = bfloat16_;
  vectors_ = f32_;
}

Tensor Weights::master(Range elements) const {
  if (!packed_) return f32_->flat(elements);
  if (within(elements, layout_.matrices())) return master_->flat(packed_->at(elements));
  return read(elements);
}

Tensor Weights::rounded(Range elements) const {
  if (!*bfloat16_ || !within(elements, layout_.matrices())) return {};
  return bfloat16_->flat(elements);
}

Tensor Weights::read(Range elements) const {
  if (within(elements, layout_.matrices())) return matrices_.flat(elements);
  expects(within(elements, layout_.vectors()));
  return vectors_.flat(shifted(elements, -layout_.vectors().begin));
}

DeviceState Weights::state() const {
  if (!packed_) return whole_state("params", f32_);
  DeviceState state{.name = "params", .shards = packed_->shards(master_), .shared_out = true};
  state.shards.push_back({layout_.vectors(), vectors_});
  return state;
}

void Weights::round(Queue& queue) {
  if (!*bfloat16_) return;
  const auto shards = packed_ ? packed_->shards(master_)
                              : std::vector<StateShard>{{layout_.matrices(), f32_->flat(layout_.matrices())}};
  for (const StateShard& shard : shards) ops_.cast(bfloat16_->flat(shard.elements), shard.data, queue);
}

void set_initial_weights(const Weights& weights, const Layout& layout, const GptConfig& config, uint64_t seed,
                         Queue& queue) {
  std::vector<float> values(static_cast<size_t>(layout.size()));
  const Tensor host(values.data(), DType::f32, {layout.size()});
  initialize_weights(layout, config, seed, host);
  for (const StateShard& shard : weights.state().shards) queue.copy(shard.data, host.flat(shard.elements));
  queue.synchronize();
}

}  // namespace gpt
