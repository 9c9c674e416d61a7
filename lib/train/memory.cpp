#include "train/memory.hpp"

#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace gpt {

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
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "VmHWM:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace gpt
