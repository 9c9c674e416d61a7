#include "train/preflight_gpu.hpp"

#include "base/philox.hpp"
#include "device/gpu_reader.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace gpt {
namespace {

bool sees_gpu(const SeenGpus& seen) { return !seen.uuids.empty(); }

/// A node for each rank that sees no GPU.
Findings blind_nodes(const std::vector<SeenGpus>& seen_by_rank, const std::vector<int>& node_of_rank) {
  Findings findings;
  for (size_t rank = 0; rank < seen_by_rank.size(); ++rank)
    if (!sees_gpu(seen_by_rank[rank]))
      findings.push_back(
          {.node = node_of_rank[rank],
           .check = "GPU",
           .reason = fmt::format("rank {} sees no GPU: {}", rank, seen_by_rank[rank].why_none)});
  return findings;
}

/// Random bits there and back again. @throws Error if others come back
void check_copies(Device& device) {
  constexpr int64_t count = int64_t{1} << 18;  // a megabyte
  const TensorBuffer sent(device.host_memory(), DType::f32, {count});
  const TensorBuffer there(device, DType::f32, {count});
  const TensorBuffer back(device.host_memory(), DType::f32, {count});
  auto* const words = static_cast<uint32_t*>(sent->raw());
  for (int64_t i = 0; i < count; ++i)
    words[i] = static_cast<uint32_t>(random_bits(0, static_cast<uint64_t>(i)));
  const std::unique_ptr<Queue> queue = device.make_queue();
  queue->copy(there, sent);
  queue->copy(back, there);
  queue->synchronize();
  validate(std::equal(words, words + count, static_cast<const uint32_t*>(back->raw())), ExitCode::preflight,
           "what is copied to the GPU comes back with other bits");
}

/// A driver without NVML says nothing, which is no fault.
GpuStatus ask_driver(const std::string& uuid) try {
  return make_gpu_reader(uuid)->read();
} catch (const std::exception&) {
  return {};
}

}  // namespace

GpuJudgment judge_gpus(const std::string& asked, const std::vector<SeenGpus>& seen_by_rank,
                       const std::vector<int>& node_of_rank) {
  GpuJudgment judgment{
      .findings = {}, .gpu_of_rank = std::vector<std::optional<int>>(seen_by_rank.size()), .notice = {}};
  const auto seeing = std::ranges::count_if(seen_by_rank, sees_gpu);
  const bool are_most = 2 * seeing > std::ssize(seen_by_rank);
  if (asked == "cuda" || (asked == "auto" && are_most))
    judgment.findings = blind_nodes(seen_by_rank, node_of_rank);
  if (!judgment.findings.empty()) return judgment;
  try {
    DeviceAgreement agreement = agree_on_devices(asked, seen_by_rank);
    judgment.gpu_of_rank = std::move(agreement.gpu_of_rank);
    judgment.notice = std::move(agreement.notice);
  } catch (const Error& error) {  // more ranks than GPUs: the start is wrong, no node is
    judgment.findings.push_back({.node = {}, .check = "GPU", .reason = error.what()});
  }
  return judgment;
}

GpuLook look_at_gpu(const DeviceChoice& choice, const CudaOptions& options, std::unique_ptr<Device>& device) {
  GpuLook look{.name = {}, .uuid = {}, .status = {}, .problem = {}};
  if (!choice.gpu) return look;
  try {
    const CudaDeviceInfo gpu = visible_cuda_devices()[static_cast<size_t>(*choice.gpu)];
    look.name = gpu.name;
    look.uuid = gpu.uuid_text();
    look.total = gpu.memory;
    look.free = free_cuda_memory(*choice.gpu);
    device = make_cuda_device(*choice.gpu, options);
    check_copies(*device);
    look.status = ask_driver(look.uuid);
  } catch (const std::exception& error) {
    look.problem = error.what();
    device.reset();
  }
  return look;
}

}  // namespace gpt
