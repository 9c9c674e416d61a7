#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "model/layout.hpp"
#include "train/owned_parts.hpp"
#include "train/weights.hpp"

#include <functional>

namespace gpt {

/// Where buffers lie that the ranks of `comm` sum or spread.
Allocator& memory_for(Comm& comm, Device& device);

/// A run's weights and gradients.
struct FlatBuffers {
  Weights weights;
  TensorBuffer gradients;  ///< of all elements, f32

  /// Collective: what the ranks of a node share they allocate together, so that this must not stand in
  /// World::everywhere. An error in a shared allocation ends the job by itself.
  /// @param type   of matrices
  /// @param owned  what this rank updates; sharded (ZeRO): ranks spread weights
  /// @param fill   gives the master of what this rank updates its first values, before there are gradients;
  ///               may fail alone
  /// @throws SharedError where memory for the master is missing, or `fill` failed; Error on one rank alone
  /// where
  ///         memory for what ranks spread or sum is, be it shared or not
  FlatBuffers(const World& world, Device& device, Comm& comm, const Layout& layout, DType type,
              const OwnedParts& owned, const std::function<void(const Weights&)>& fill);
};

}  // namespace gpt
