#include "train/weights.hpp"

#include <utility>

namespace gpt {
namespace {

/// What of `ranges` lies in `outer`.
std::vector<Range> parts_within(const std::vector<Range>& ranges, Range outer) {
  std::vector<Range> parts;
  for (const Range& range : ranges)
    if (const Range part = common(range, outer); !part.empty()) parts.push_back(part);
  return parts;
}

/// Matrices of which there must be a master beside what is read.
std::vector<Range> rounded_parts(const Layout& layout, const OwnedParts& owned, DType type) {
  if (type == DType::f32) return {};
  return parts_within(owned.all_updated(), layout.matrices());
}

}  // namespace

Weights::Weights(const Layout& layout, Device& device, DType type)
    : Weights(layout, device, {.updated = {{{0, layout.size()}}}, .counted = {}},
              ReadWeights(layout, type, device)) {}

Weights::Weights(const Layout& layout, Device& device, const OwnedParts& owned, ReadWeights read)
    : layout_(layout),
      ops_(device.ops()),
      read_(std::move(read)),
      divided_(owned.sharded && read_.type() != DType::f32),
      packed_(rounded_parts(layout, owned, read_.type())),
      master_(device, DType::f32, {packed_.size()}) {}

bool Weights::is_rounded(Range elements) const {
  return read_.type() != DType::f32 && contains(layout_.matrices(), elements);
}

Tensor Weights::master(Range elements) const {
  return is_rounded(elements) ? master_->flat(packed_.at(elements)) : read_.at(elements);
}

Tensor Weights::rounded(Range elements) const { return is_rounded(elements) ? read_.at(elements) : Tensor{}; }

DeviceState Weights::state() const {
  if (read_.type() == DType::f32) return whole_state("params", read_.all());
  DeviceState state{.name = "params", .shards = packed_.shards(master_), .shared_out = divided_};
  state.shards.push_back({layout_.vectors(), read_.at(layout_.vectors())});
  return state;
}

void Weights::round(const WeightRounding& rounding, Queue& queue) {
  for (const StateShard& shard : packed_.shards(master_))
    ops_.round(read_.at(shard.elements), shard.data, rounding.from(shard.elements.begin), queue);
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
