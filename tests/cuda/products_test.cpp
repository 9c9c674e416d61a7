#include "device/cuda_device.hpp"

#include <doctest/doctest.h>
#include <vector>

using namespace gpt;

namespace {

Tensor on_host(std::vector<float>& values) { return {values.data(), DType::f32, {std::ssize(values)}}; }

}  // namespace

TEST_CASE("an algorithm that was chosen for aligned matrices is not used for others") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  constexpr int64_t rows = 16, in = 8, out = 24;
  std::vector<float> halves(out * in + 1, 0.5F), results(rows * out);
  const TensorBuffer x(*device, DType::f32, {rows * in + 1}), w(*device, DType::f32, {out * in + 1}),
      y(*device, DType::f32, {rows * out + 1});
  queue->copy(x, on_host(halves).flat({0, rows * in + 1}));
  queue->copy(w, on_host(halves));
  for (int64_t from : {0, 1}) {  // elements from an aligned address
    const Tensor result = y->flat({from, from + rows * out});
    device->ops().linear(result.view({rows, out}), {}, x->flat({from, from + rows * in}).view({rows, in}),
                         w->flat({from, from + out * in}).view({out, in}), {}, Activation::none, *queue);
    queue->copy(on_host(results), result);
    queue->synchronize();
    CHECK(results == std::vector<float>(rows * out, 0.25F * in));
  }
}
