#include "device/gpu_peaks.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace gpt {
namespace {

struct Known {
  std::vector<std::string_view> words;  // of the name, all of them
  double bf16, tf32, f32;               // TFLOP/s
};

/// NVIDIA's data sheets of these names, of one GPU, boost clock. Where they give figures "with sparsity",
/// half of these. The first that fits counts: a form factor stands before the plain name, which is SXM's.
const std::vector<Known>& known_gpus() {
  static const std::vector<Known> all = {
      {{"A30"}, 165, 82, 10.3},             // A30 Tensor Core GPU
      {{"A40"}, 149.7, 74.8, 37.4},         // A40
      {{"A100"}, 312, 156, 19.5},           // A100 Tensor Core GPU; the same for SXM and PCIe
      {{"A800"}, 312, 156, 19.5},           // an A100 with slower links
      {{"L40S"}, 362, 183, 91.6},           // L40S
      {{"H100", "PCIe"}, 756, 378, 51},     // H100 Tensor Core GPU, 2022
      {{"H100", "NVL"}, 835.5, 417.5, 60},  // H100 Tensor Core GPU, 2024
      {{"H100"}, 989, 494.5, 67},           // H100 Tensor Core GPU, SXM
      {{"H800"}, 989, 494.5, 67},           // an H100 with slower links
      {{"H200", "NVL"}, 835.5, 417.5, 60},  // H200 Tensor Core GPU
      {{"H200"}, 989, 494.5, 67},           // H200 Tensor Core GPU, SXM
      {{"GH200"}, 989, 494.5, 67},          // GH200 Grace Hopper Superchip
      {{"B200"}, 2250, 1125, 75},           // HGX B200, an eighth of it
      {{"GB200"}, 2500, 1250, 80},          // GB200 NVL72, a 72nd of it
  };
  return all;
}

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of(" -"), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

}  // namespace

std::optional<GpuPeaks> documented_peaks(std::string_view name) {
  constexpr double tera = 1e12;
  const std::vector<std::string_view> words = words_of(name);
  const auto has = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  if (has("MIG")) return std::nullopt;
  for (const Known& gpu : known_gpus())
    if (std::ranges::all_of(gpu.words, has))
      return GpuPeaks{.bf16 = tera * gpu.bf16, .tf32 = tera * gpu.tf32, .f32 = tera * gpu.f32};
  return std::nullopt;
}

}  // namespace gpt
