#pragma once

#include "comm/world.hpp"
#include "device/gpu_status.hpp"
#include "train/device_choice.hpp"
#include "train/preflight_finding.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// A rank's GPU as it was found; without a GPU all empty.
struct GpuLook {
  std::string name;
  std::string uuid;
  int64_t total = 0;  ///< bytes of memory
  int64_t free = 0;   ///< of these, before this program took any for itself
  GpuStatus status;   ///< what the driver says; empty where there is no NVML
  std::string problem;
};

/// Who would compute where, and what is wrong with it.
struct GpuJudgment {
  Findings findings;
  std::vector<std::optional<int>>
      gpu_of_rank;     ///< as agree_on_devices gives them; all nothing if it does not
  std::string notice;  ///< for people
};

/// Training's own choice of devices. Where that refuses, the nodes that see too few GPUs are named. With
/// `auto` training would compute on CPUs if one rank sees no GPU: here the nodes that see none are named if
/// most ranks see one.
GpuJudgment judge_gpus(const std::string& asked, const std::vector<SeenGpus>& seen_by_rank,
                       const std::vector<int>& node_of_rank);

/// Makes the device, copies to it and back, and asks its driver how it is. What throws becomes the problem.
/// @param device  set to the device that was made, unless there is a problem
GpuLook look_at_gpu(const DeviceChoice& choice, const CudaOptions& options, std::unique_ptr<Device>& device);

}  // namespace gpt
