#include "train/flat_buffers.hpp"

#include "base/fault.hpp"

#include <optional>
#include <utility>

namespace gpt {
namespace {

Weights make_weights(const World& world, Device& device, Comm& comm, const Layout& layout, DType type,
                     const OwnedParts& owned, const std::function<void(const Weights&)>& fill) {
  std::optional<ReadWeights> spread;
  if (owned.sharded) {
    fault_point("memory.shared");
    spread.emplace(layout, type, memory_for(comm, device));
  }
  std::optional<Weights> weights;
  world.everywhere([&] {
    fault_point("memory");
    if (spread)
      weights.emplace(layout, device, owned, std::move(*spread));
    else
      weights.emplace(layout, device, type);
    fill(*weights);
  });
  return std::move(*weights);
}

TensorBuffer make_gradients(Allocator& memory, int64_t elements) {
  fault_point("memory.shared");
  return {memory, DType::f32, {elements}};
}

}  // namespace

Allocator& memory_for(Comm& comm, Device& device) {
  Allocator* const supplied = comm.allocator();
  return supplied != nullptr ? *supplied : device;
}

FlatBuffers::FlatBuffers(const World& world, Device& device, Comm& comm, const Layout& layout, DType type,
                         const OwnedParts& owned, const std::function<void(const Weights&)>& fill)
    : weights(make_weights(world, device, comm, layout, type, owned, fill)),
      gradients(make_gradients(memory_for(comm, device), layout.size())) {}

}  // namespace gpt
