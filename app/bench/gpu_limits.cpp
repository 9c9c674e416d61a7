#include "bench/gpu_limits.hpp"

#include "device/gpu_peaks.hpp"
#include "device/queue_timer.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace gpt {
namespace {

constexpr double long_enough = 1e-3;  // seconds: what begins and ends an operation no longer counts

/// The device that is measured, and its clock.
struct Bench {
  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<QueueTimer> timer;

  explicit Bench(int gpu)
      : device(make_cuda_device(gpu)), queue(device->make_queue()), timer(make_cuda_timer(gpu)) {}

  /// The least of some times.
  template <class Work>
  double seconds_of(const Work& work) {
    constexpr int times = 6;
    for (int i = 0; i < times; ++i) {
      timer->begin(*queue);
      work();
      timer->end(*queue);
    }
    return std::ranges::min(timer->seconds());
  }
};

double copied_bytes_per_second(Bench& bench) {
  constexpr int64_t first = int64_t{1} << 20, largest = int64_t{512} << 20;
  for (int64_t bytes = first;; bytes *= 2) {
    const int64_t count = bytes / size_of(DType::f32);
    const TensorBuffer from(*bench.device, DType::f32, {count}), to(*bench.device, DType::f32, {count});
    const double seconds = bench.seconds_of([&] { bench.queue->copy(to, from); });
    if (seconds >= long_enough || bytes >= largest) return 2.0 * static_cast<double>(bytes) / seconds;
  }
}

double product_flops_per_second(Bench& bench, DType type) {
  constexpr int64_t first = 256, largest = 8192;
  for (int64_t n = first;; n *= 2) {
    const TensorBuffer x(*bench.device, type, {n, n}), w(*bench.device, type, {n, n}),
        y(*bench.device, type, {n, n});
    const double seconds = bench.seconds_of(
        [&] { bench.device->ops().linear(y, {}, x, w, {}, Activation::none, *bench.queue); });
    const auto edge = static_cast<double>(n);
    if (seconds >= long_enough || n >= largest) return 2.0 * edge * edge * edge / seconds;
  }
}

}  // namespace

GpuLimits limits_of(const CudaDeviceInfo& gpu) {
  Bench bench(gpu.index);
  const std::optional<GpuPeaks> documented = documented_peaks(gpu.name);
  GpuLimits limits{.peaks = {.bytes = copied_bytes_per_second(bench)}, .documented = documented.has_value()};
  limits.peaks.f32_flops = documented ? documented->f32 : product_flops_per_second(bench, DType::f32);
  limits.peaks.bf16_flops = documented ? documented->bf16 : product_flops_per_second(bench, DType::bf16);
  limits.peaks.of =
      fmt::format("{}, products {}, memory measured", gpu.name, documented ? "as documented" : "measured");
  return limits;
}

}  // namespace gpt
