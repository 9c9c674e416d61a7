#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"

#include <functional>

namespace gpt {

/// Where buffers lie that the ranks of `comm` sum or spread.
Allocator& memory_for(Comm& comm, Device& device);

/// A run's parameters and gradients, each `elements` of f32.
struct FlatBuffers {
  TensorBuffer params, gradients;

  /// Collective: what the ranks of a node share they allocate together, so that this must not stand in
  /// World::everywhere. An error in a shared allocation ends the job by itself.
  /// @param spread_params  whether ranks spread parameters too (ZeRO)
  /// @param fill           gives parameters their first values, before there are gradients; may fail alone
  /// @throws SharedError where memory that is not shared is missing, or `fill` failed
  FlatBuffers(const World& world, Device& device, Comm& comm, int64_t elements, bool spread_params,
              const std::function<void(Tensor params)>& fill);
};

}  // namespace gpt
