#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "model/layout.hpp"
#include "train/buckets.hpp"
#include "train/owned_parts.hpp"
#include "train/weights.hpp"

#include <cstdint>
#include <functional>

namespace gpt {

/// Where buffers lie that the ranks of `comm` sum or spread.
Allocator& memory_for(Comm& comm, Device& device);

struct FlatBufferOptions {
  DType type = DType::f32;  ///< of matrices
  int64_t bucket_bytes = 0;
  bool sharded = false;  ///< ZeRO: each rank updates what the Comm says that it owns, and weights are spread
};

/// A run's weights and gradients, and how ranks divide the work on them.
struct FlatBuffers {
  Buckets buckets;
  OwnedParts owned;
  Weights weights;
  TensorBuffer gradients;  ///< of all elements, f32

  /// Collective: what the ranks of a node share they allocate together, so that this must not stand in
  /// World::everywhere. An error in a shared allocation ends the job by itself.
  /// @param fill  gives the master of what this rank updates its first values, before there are gradients;
  ///              may fail alone
  /// @throws SharedError where memory for the master is missing, or `fill` failed; Error on one rank alone
  ///         where memory for what ranks spread or sum is, be it shared or not
  FlatBuffers(const World& world, Device& device, Comm& comm, const Layout& layout,
              const FlatBufferOptions& options, const std::function<void(const Weights&)>& fill);

  /// The same for the ranks of `comm` alone, be they a World or not: every error is that of one rank.
  FlatBuffers(Device& device, Comm& comm, const Layout& layout, const FlatBufferOptions& options,
              const std::function<void(const Weights&)>& fill);

private:
  /// Does work that may fail on one rank alone.
  using Everywhere = std::function<void(const std::function<void()>&)>;
  FlatBuffers(const Everywhere& everywhere, Device& device, Comm& comm, const Layout& layout,
              const FlatBufferOptions& options, const std::function<void(const Weights&)>& fill);
};

}  // namespace gpt
