#include "device/cpu_peaks.hpp"

#include "base/error.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>

namespace gpt {

TEST_CASE("no product is faster than the peak") {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  constexpr int64_t size = 512;
  const TensorBuffer x(*device, DType::f32, {size, size}), w(*device, DType::f32, {size, size}),
      y(*device, DType::f32, {size, size});
  double least = 1.0;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    device->ops().linear(y, {}, x, w, {}, Activation::none, *queue);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double reached = 2.0 * size * size * size / least;
  const double peak = measure_peak_flops(1, DType::f32);
  CHECK(peak > 0.95 * reached);
  CHECK(measure_peak_flops(1, DType::bf16) > 0.8 * peak);
  CHECK(measure_peak_bytes(1) > 0.0);
  CHECK_THROWS_AS(measure_peak_flops(1, DType::f64), Error);
}

}  // namespace gpt
