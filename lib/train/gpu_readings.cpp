#include "train/gpu_readings.hpp"

#include "base/mpi.hpp"
#include "device/cuda_device.hpp"
#include "device/gpu_peaks.hpp"
#include "model/model_flops.hpp"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace gpt {
namespace {

/// FLOP/s; not a number where it is not known.
double peak_of(const CudaDeviceInfo& gpu, const TrainOptions& options) {
  const std::optional<GpuPeaks> peaks = documented_peaks(gpu.name);
  return peaks ? peaks->flops(options.matrix_type(), options.tf32) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

GpuReadings::GpuReadings(const World& world, const DeviceChoice& device, const TrainOptions& options,
                         int64_t parameters)
    : flops_per_token_(model_flops_per_token(options.model, parameters)) {
  if (!device.gpu) return;  // on all ranks or on none
  const CudaDeviceInfo gpu = visible_cuda_devices()[static_cast<size_t>(*device.gpu)];
  const double mine = peak_of(gpu, options);
  {
    const Watchdog::Waiting waiting(world.watchdog());
    check_mpi(MPI_Allreduce(&mine, &peak_, 1, MPI_DOUBLE, MPI_SUM, world.world()));
  }
  if (std::isnan(peak_)) {
    notices_.push_back(fmt::format("what {} can do at best is not known here: log.jsonl has no mfu",
                                   std::isnan(mine) ? gpu.name : "the GPU of another rank"));
    peak_ = 0.0;
  }
  if (options.log_every > 0) monitor_.emplace([uuid = gpu.uuid_text()] { return make_gpu_reader(uuid); });
}

void GpuReadings::request() {
  if (monitor_) monitor_->request();
}

GpuStatus GpuReadings::latest() const { return monitor_ ? monitor_->latest() : GpuStatus{}; }

std::optional<double> GpuReadings::mfu(double tokens_per_second) const {
  if (peak_ == 0.0) return std::nullopt;
  return flops_per_token_ * tokens_per_second / peak_;
}

std::vector<std::string> GpuReadings::take_notices() {
  std::vector<std::string> lines = std::exchange(notices_, {});
  if (monitor_)
    if (std::optional<std::string> line = monitor_->take_notice()) lines.push_back(*std::move(line));
  return lines;
}

}  // namespace gpt
