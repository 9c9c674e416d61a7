#pragma once

#include <cstdint>
#include <string>

namespace gpt {

/// Bytes of the large buffers of a rank, in the memory of its device. Not counted: the program with its
/// libraries in the host's memory, messages under way, the batch, the cache of the sample that rank 0 draws
/// at the end.
struct MemoryEstimate {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t tree = 0;  ///< gradients of subtrees (--reduction tree)
  int64_t activations = 0;
  int64_t scratch = 0;    ///< working memory of operations
  int64_t libraries = 0;  ///< what they hold of a GPU by themselves (LibraryMemory); 0 until it is measured
  int64_t gathering = 0;  ///< what parts of other ranks come to before they are saved
  int64_t saving = 0;     ///< copies that checkpoints are written from, in the host's memory always
  int64_t node_checkpoints = 0;  ///< its share of what its node keeps in a memory file system, likewise

  int64_t total() const { return on_device() + on_host(); }
  /// Without what is in the host's memory where the device has its own.
  int64_t on_device() const {
    return parameters + gradients + optimizer + tree + activations + scratch + libraries + gathering;
  }
  /// What is in the host's memory, wherever the rank computes.
  int64_t on_host() const { return saving + node_checkpoints; }
  bool operator==(const MemoryEstimate&) const = default;
};

/// For people. @param elements  parameters of the model, to divide by
std::string describe(const MemoryEstimate& estimate, int64_t elements);

/// The most memory that this process has had so far, in bytes: VmHWM of /proc/self/status, with this
/// process's share (as it is now) of what several have mapped. 0 where the system does not tell.
int64_t peak_memory();

/// "12.3 MB", from 10 GB on "12.3 GB"
std::string readable_bytes(int64_t bytes);

}  // namespace gpt
