#pragma once

#include "comm/world.hpp"
#include "device/gpu_monitor.hpp"
#include "train/device_choice.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What log.jsonl says of GPUs: status of this rank's, and how well a step used those of all ranks. On CPUs
/// there is nothing.
class GpuReadings {
public:
  /// Collective over the world. @param parameters  of the model, without padding
  GpuReadings(const World& world, const DeviceChoice& device, const TrainOptions& options,
              int64_t parameters);

  /// Asks for the status, without waiting for it.
  void request();
  /// The last one that has arrived.
  GpuStatus latest() const;

  /// Model FLOPs utilization (Chowdhery et al. 2022): the operations that so many tokens a second of all
  /// ranks are worth (model_flops_per_token), as a share of what the ranks' GPUs could do in that precision.
  /// Nothing where the peak of one is not known.
  std::optional<double> mfu(double tokens_per_second) const;

  /// What cannot be logged, for people: each line once, when it is known.
  std::vector<std::string> take_notices();

private:
  std::optional<GpuMonitor> monitor_;
  double flops_per_token_ = 0.0;
  double peak_ = 0.0;  // FLOP/s of all ranks; 0 if that is not known
  std::vector<std::string> notices_;
};

}  // namespace gpt
