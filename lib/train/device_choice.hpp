#pragma once

#include "comm/world.hpp"
#include "device/cuda_device.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// @throws Error(usage) if `--device asked` names none, or what this build does not have
void validate_device(const std::string& asked);

/// @throws Error(usage) if `--attention asked` names none, what this build does not have, or what the device
/// that is asked for does not have
void validate_attention(const std::string& asked, const std::string& device);

/// What a rank sees of GPUs.
struct SeenGpus {
  std::string host;
  std::vector<std::string> uuids;  ///< of the visible ones, in their order
  std::string why_none;            ///< a sentence, where there are none
};

/// What all ranks compute on.
struct DeviceAgreement {
  std::vector<std::optional<int>> gpu_of_rank;  ///< index among its visible ones; nothing: the CPU
  std::string notice;                           ///< for the log, where ranks gave up GPUs
};

/// Where every rank computes, by what all of them see: in the order of ranks each takes the first GPU that it
/// sees and no rank before it has taken, wherever that rank is: by UUID, since containers and batch systems
/// number devices anew. Where all that a rank sees are taken, ranks before it make room if they can. Ranks
/// that see all GPUs of their node take them by local rank, a rank that sees one takes that. With `auto`, all
/// compute on the CPU if any sees no GPU.
/// @param asked  auto, cpu, cuda
/// @throws Error(preflight) naming ranks, hosts and UUIDs if a GPU would have to be used twice, or if `cuda`
/// cannot be had everywhere
DeviceAgreement agree_on_devices(const std::string& asked, const std::vector<SeenGpus>& seen_by_rank);

/// What every rank sees, by rank; nothing is looked for with `cpu`. Collective. @throws SharedError
std::vector<SeenGpus> gather_seen_gpus(const World& world, const std::string& asked);

/// This rank's part of an agreement.
struct DeviceChoice {
  std::optional<int> gpu;  ///< nothing: the CPU
  std::string uuid{};      ///< of the GPU, "GPU-8b6c…"; empty: the CPU
  std::string notice{};    ///< the same on all ranks
};

/// Looks for GPUs where that is asked for, and agrees. Collective. @throws SharedError as agree_on_devices
DeviceChoice choose_device(const World& world, const std::string& asked);

/// For a program that runs alone. @throws Error as agree_on_devices
DeviceChoice choose_device(const std::string& asked);

std::unique_ptr<Device> make_device(const DeviceChoice& choice, int threads, const CudaOptions& options);

}  // namespace gpt
