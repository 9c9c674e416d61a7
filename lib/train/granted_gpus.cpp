#include "train/granted_gpus.hpp"

#include <charconv>
#include <fmt/format.h>
#include <string_view>

namespace gpt {

std::optional<std::string> idle_gpu_notice(int ranks_on_host,
                                           const std::function<const char*(const char*)>& variable) {
  const char* const value = variable("SLURM_GPUS_ON_NODE");
  const std::string_view text = value == nullptr ? "" : value;
  int gpus = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gpus);
  if (error != std::errc() || end != text.data() + text.size() || gpus <= ranks_on_host) return std::nullopt;
  return fmt::format(
      "NOTICE: {} GPUs are granted on this node, and {} rank{} run{} on it: {} of them stand idle. Add "
      "--ntasks-per-node={} to srun",
      gpus, ranks_on_host, ranks_on_host == 1 ? "" : "s", ranks_on_host == 1 ? "s" : "", gpus - ranks_on_host,
      gpus);
}

}  // namespace gpt
