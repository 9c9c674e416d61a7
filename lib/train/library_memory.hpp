#pragma once

#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/device_choice.hpp"

#include <cstdint>
#include <optional>

namespace gpt {

/// What libraries hold of a GPU's memory for themselves: NCCL's buffers, cuBLASLt's, CUDA's own for streams
/// and events, code of kernels that have run. It depends on their versions, the network and the number of
/// ranks, and is not known before they are there: it is measured.
class LibraryMemory {
public:
  /// Before the device is made, and what connects it with those of other ranks. The GPU's context is there
  /// from now on: it is not counted, and not free either.
  explicit LibraryMemory(const DeviceChoice& device);

  /// Bytes of the GPU that were free then; 0 on the CPU.
  int64_t free_before() const { return free_before_; }

  /// Lets `comm` form such sums as a step does, since libraries connect ranks and load code when they are
  /// first asked, and then measures. Nothing is done on CPUs. Collective.
  /// @param elements  of a bucket
  /// @param sharded   whether every rank gets a part of it only
  /// @param held      bytes that this program has allocated on the GPU since
  /// @return bytes, the most of all ranks; 0 on CPUs
  int64_t measure(const World& world, Device& device, Comm& comm, int64_t elements, bool sharded,
                  int64_t held) const;

private:
  std::optional<int> gpu_;
  int64_t free_before_;
};

}  // namespace gpt
