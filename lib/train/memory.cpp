#include "train/memory.hpp"

#include "train/proc_files.hpp"

#include <fmt/format.h>

namespace gpt {
std::string readable_bytes(int64_t bytes) {
  constexpr double gigabytes = 10e9;
  const auto value = static_cast<double>(bytes);
  return value < gigabytes ? fmt::format("{:.1f} MB", value * 1e-6) : fmt::format("{:.1f} GB", value * 1e-9);
}

std::string describe(const MemoryEstimate& estimate, int64_t elements) {
  const int64_t state = estimate.parameters + estimate.gradients + estimate.optimizer;
  const int64_t saving = estimate.gathering + estimate.saving;
  return fmt::format(
      "{}: parameters {}, gradients {}, optimizer {} (together {:.2f} bytes a parameter), {}"
      "activations {}, scratch {}{}{}{}",
      readable_bytes(estimate.total()), readable_bytes(estimate.parameters),
      readable_bytes(estimate.gradients), readable_bytes(estimate.optimizer),
      static_cast<double>(state) / static_cast<double>(elements),
      estimate.tree > 0 ? fmt::format("subtrees {}, ", readable_bytes(estimate.tree)) : "",
      readable_bytes(estimate.activations), readable_bytes(estimate.scratch),
      estimate.libraries > 0 ? fmt::format(", libraries {}", readable_bytes(estimate.libraries)) : "",
      saving > 0 ? fmt::format(", while saving {}", readable_bytes(saving)) : "",
      estimate.node_checkpoints > 0
          ? fmt::format(", checkpoints in memory {}", readable_bytes(estimate.node_checkpoints))
          : "");
}

int64_t peak_memory() {
  const int64_t peak = bytes_in("/proc/self/status", "VmHWM:");
  const int64_t touched = bytes_in("/proc/self/status", "RssShmem:");
  const int64_t share = bytes_in("/proc/self/smaps_rollup", "Pss_Shmem:");
  // Memory that several ranks have mapped counts once for all of them together.
  return share > 0 ? peak - touched + share : peak;
}

}  // namespace gpt
