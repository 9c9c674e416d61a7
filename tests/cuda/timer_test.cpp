#include "device/cuda_device.hpp"
#include "device/queue_timer.hpp"

#include <doctest/doctest.h>

using namespace gpt;

TEST_CASE("spans are timed in their order while work goes on, and again after they were asked for") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  const auto timer = make_cuda_timer(0);
  constexpr int64_t few = 64, many = int64_t{4} << 20;
  const TensorBuffer little(*device, DType::f32, {few}), little_sum(*device, DType::f32, {few}),
      much(*device, DType::f32, {many}), much_sum(*device, DType::f32, {many});
  CHECK(timer->seconds().empty());
  for (int round = 0; round < 2; ++round) {
    timer->begin(*queue);
    device->ops().add(little_sum, little, *queue);
    timer->end(*queue);
    device->ops().add(much_sum, much, *queue);  // belongs to no span
    timer->begin(*queue);
    for (int i = 0; i < 3; ++i) device->ops().add(much_sum, much, *queue);
    timer->end(*queue);
    const std::vector<double> spans = timer->seconds();
    REQUIRE(spans.size() == 2);
    CHECK(spans[0] > 0.0);
    CHECK(spans[1] > 2.0 * spans[0]);
    CHECK(spans[1] < 60.0);
  }
}
