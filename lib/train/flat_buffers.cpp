#include "train/flat_buffers.hpp"

#include "base/fault.hpp"

#include <optional>
#include <utility>

namespace gpt {
namespace {

Weights make_weights(const std::function<void(const std::function<void()>&)>& everywhere, Device& device,
                     Comm& comm, const Layout& layout, DType type, const OwnedParts& owned,
                     const std::function<void(const Weights&)>& fill) {
  std::optional<ReadWeights> spread;
  if (owned.sharded) {
    fault_point("memory.shared");
    spread.emplace(layout, type, memory_for(comm, device));
  }
  std::optional<Weights> weights;
  everywhere([&] {
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

FlatBuffers::FlatBuffers(const Everywhere& everywhere, Device& device, Comm& comm, const Layout& layout,
                         const FlatBufferOptions& options, const std::function<void(const Weights&)>& fill)
    : buckets(layout, options.bucket_bytes),
      owned(options.sharded ? owned_parts(buckets, comm) : all_parts(buckets)),
      weights(make_weights(everywhere, device, comm, layout, options.type, owned, fill)),
      gradients(make_gradients(memory_for(comm, device), layout.size())) {}

FlatBuffers::FlatBuffers(const World& world, Device& device, Comm& comm, const Layout& layout,
                         const FlatBufferOptions& options, const std::function<void(const Weights&)>& fill)
    : FlatBuffers([&](const std::function<void()>& work) { world.everywhere(work); }, device, comm, layout,
                  options, fill) {}

FlatBuffers::FlatBuffers(Device& device, Comm& comm, const Layout& layout, const FlatBufferOptions& options,
                         const std::function<void(const Weights&)>& fill)
    : FlatBuffers([](const std::function<void()>& work) { work(); }, device, comm, layout, options, fill) {}

}  // namespace gpt
