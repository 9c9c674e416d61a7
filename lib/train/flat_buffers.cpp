#include "train/flat_buffers.hpp"

#include "base/fault.hpp"

namespace gpt {
namespace {

TensorBuffer allocate(Allocator& memory, int64_t elements) {
  fault_point("memory.shared");
  return {memory, DType::f32, {elements}};
}

}  // namespace

Allocator& memory_for(Comm& comm, Device& device) {
  Allocator* const supplied = comm.allocator();
  return supplied != nullptr ? *supplied : device;
}

FlatBuffers::FlatBuffers(const World& world, Device& device, Comm& comm, int64_t elements, bool spread_params,
                         const std::function<void(Tensor params)>& fill) {
  Allocator& shared = memory_for(comm, device);
  if (spread_params) params = allocate(shared, elements);
  world.everywhere([&] {
    fault_point("memory");
    if (!spread_params) params = {device, DType::f32, {elements}};
    fill(params);
  });
  gradients = allocate(shared, elements);
}

}  // namespace gpt
