#include "train/memory.hpp"

#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace gpt {
namespace {

/// The value behind `name` in a file of lines "name value kB"; 0 if there is none.
int64_t bytes_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t kibibytes = 0;
    if (words >> first >> kibibytes && first == name) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6); }

std::string describe(const MemoryEstimate& estimate, int64_t elements) {
  const int64_t state = estimate.parameters + estimate.gradients + estimate.optimizer;
  return fmt::format(
      "{}: parameters {}, gradients {}, optimizer {} (together {:.2f} bytes a parameter), {}"
      "activations {}{}",
      megabytes(estimate.total()), megabytes(estimate.parameters), megabytes(estimate.gradients),
      megabytes(estimate.optimizer), static_cast<double>(state) / static_cast<double>(elements),
      estimate.tree > 0 ? fmt::format("subtrees {}, ", megabytes(estimate.tree)) : "",
      megabytes(estimate.activations),
      estimate.saving > 0 ? fmt::format(", while saving {}", megabytes(estimate.saving)) : "");
}

int64_t peak_memory() {
  const int64_t peak = bytes_in("/proc/self/status", "VmHWM:");
  const int64_t touched = bytes_in("/proc/self/status", "RssShmem:");
  const int64_t share = bytes_in("/proc/self/smaps_rollup", "Pss_Shmem:");
  // Memory that several ranks have mapped counts once for all of them together.
  return share > 0 ? peak - touched + share : peak;
}

}  // namespace gpt
