#include "base/error.hpp"
#include "device/cuda/native.hpp"
#include "device/cuda_device.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <cuda_runtime.h>
#include <doctest/doctest.h>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace gpt;

namespace {

std::vector<float> counting(int64_t size, float from = 0.0F) {
  std::vector<float> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), from);
  return values;
}

Tensor on_host(std::vector<float>& values) { return {values.data(), DType::f32, {std::ssize(values)}}; }

}  // namespace

TEST_CASE("the visible GPUs have names, memory and different UUIDs") {
  CHECK(has_cuda());
  const auto devices = visible_cuda_devices();
  REQUIRE(!devices.empty());
  for (size_t i = 0; i < devices.size(); ++i) {
    CHECK(devices[i].index == static_cast<int>(i));
    CHECK(!devices[i].name.empty());
    CHECK(devices[i].memory > 0);
    CHECK(devices[i].uuid_text().size() == 40);
    CHECK(devices[i].uuid_text().starts_with("GPU-"));
    for (size_t other = 0; other < i; ++other) CHECK(devices[i].uuid != devices[other].uuid);
  }
  const auto device = make_cuda_device(0);
  CHECK(device->name().find(devices[0].name) == 0);
  // Sums chosen for one GPU are those for another of its kind: names are compared.
  CHECK(device->name().find(devices[0].uuid_text()) == std::string::npos);
  CHECK(device->name().find("cuBLASLt") != std::string::npos);
  CHECK(make_cuda_device(0, {.tf32 = true})->name().ends_with("TF32"));
  CHECK(cuda_index(*device) == 0);
  CHECK(device->multiplies(DType::bf16));
}

TEST_CASE("a GPU that is not there is refused") {
  CHECK_THROWS_WITH_AS(make_cuda_device(1000), doctest::Contains("GPU 1000 was asked for"), Error);
  CHECK_THROWS_AS(make_cuda_device(-1), Error);
}

TEST_CASE("what CUDA refuses is an error that names the call's place") {
  CHECK_THROWS_WITH_AS(use_cuda_device(1000), doctest::Contains("at device.cpp:"), Error);
}

TEST_CASE("device memory is zeroed at every size, and a request that no GPU can serve is refused") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  for (int64_t size : {int64_t{1}, int64_t{1000}, (int64_t{5} << 20) + 1}) {
    const TensorBuffer memory(*device, DType::f32, {size});
    CHECK(reinterpret_cast<uintptr_t>(memory->raw()) % 256 == 0);
    std::vector<float> seen = counting(size, 1.0F);
    queue->copy(on_host(seen), memory);
    queue->synchronize();
    CHECK(seen == std::vector<float>(static_cast<size_t>(size)));
  }
  CHECK_THROWS_WITH_AS(Buffer(*device, int64_t{1} << 60), doctest::Contains("no memory for 1099511627776"),
                       Error);
}

TEST_CASE("copies go between host and device in every direction, at sizes with and without staging") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  for (int64_t size : {int64_t{1}, int64_t{4096}, (int64_t{1} << 20) + 3}) {
    std::vector<float> values = counting(size), back(values.size());
    const TensorBuffer first(*device, DType::f32, {size}), second(*device, DType::f32, {size});
    queue->copy(first, on_host(values));
    queue->copy(second, first);
    queue->copy(on_host(back), second);
    queue->synchronize();
    CHECK(back == values);
    queue->zero(second);
    queue->copy(on_host(back), second);
    queue->synchronize();
    CHECK(back == std::vector<float>(values.size()));
  }
}

TEST_CASE("host memory of small copies may change at once, and many copies under way do not mix") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  constexpr int copies = 20;
  constexpr int64_t size = 100;
  const TensorBuffer memory(*device, DType::f32, {copies * size});
  std::vector<float> values(size), back(copies * size);
  for (int i = 0; i < copies; ++i) {
    values = counting(size, static_cast<float>(i * size));
    queue->copy(memory->flat({i * size, (i + 1) * size}), on_host(values));
  }
  values.assign(size, -1.0F);
  for (int i = 0; i < copies; ++i)
    queue->copy(Tensor(back.data() + i * size, DType::f32, {size}), memory->flat({i * size, (i + 1) * size}));
  queue->synchronize();
  CHECK(back == counting(copies * size));
}

TEST_CASE("host tasks run in the stream's order") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  std::vector<float> values = counting(10), back(10), seen;
  const TensorBuffer memory(*device, DType::f32, {10});
  queue->copy(memory, on_host(values));
  queue->copy(on_host(back), memory);
  queue->host([&] { seen = back; });
  queue->host([&] { back.assign(10, 0.0F); });
  queue->synchronize();
  CHECK(seen == values);
  CHECK(back == std::vector<float>(10));
}

TEST_CASE("copies between host memories keep the stream's order") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  std::vector<float> values = counting(10), first(10), second(10);
  const TensorBuffer memory(*device, DType::f32, {10});
  queue->copy(memory, on_host(values));
  queue->copy(on_host(first), memory);
  queue->copy(on_host(second), on_host(first));
  queue->synchronize();
  CHECK(second == values);
}

TEST_CASE("a queue ends when its work is done") {
  const auto device = make_cuda_device(0);
  bool ran = false;
  device->make_queue()->host([&] { ran = true; });
  CHECK(ran);
}

TEST_CASE("a queue waits for an event of another, which waits for its own work") {
  const auto device = make_cuda_device(0);
  const auto compute = device->make_queue(), communication = device->make_communication_queue();
  const auto event = device->make_event(), done = device->make_event();
  event->synchronize();  // nothing was recorded
  std::vector<float> values = counting(1000), back(1000);
  const TensorBuffer memory(*device, DType::f32, {1000}), sum(*device, DType::f32, {1000});
  compute->copy(memory, on_host(values));
  compute->record(*event);
  communication->wait(*event);
  communication->copy(sum, memory);
  communication->record(*done);
  compute->wait(*done);
  device->ops().add(sum, memory, *compute);
  compute->copy(on_host(back), sum);
  compute->record(*event);
  event->synchronize();
  for (size_t i = 0; i < back.size(); ++i) REQUIRE(back[i] == 2.0F * values[i]);
}

TEST_CASE("a timed event says whether and when the stream came to it, and the host does not wait for that") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  const auto begin = device->make_timed_event(), end = device->make_timed_event();
  CHECK(end->reached());  // nothing was recorded
  std::atomic<bool> released = false;
  queue->record(*begin);
  queue->host([&] {
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  });
  queue->record(*end);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    released = true;
  });
  while (!end->reached()) std::this_thread::yield();
  later.join();
  CHECK(begin->reached());
  CHECK(end->seconds_since(*begin) >= 0.03);
  CHECK(end->seconds_since(*begin) < 10.0);
  CHECK(begin->seconds_since(*begin) == 0.0);
  queue->host([] { throw std::runtime_error("the task failed"); });
  queue->record(*end);
  CHECK_THROWS_WITH(
      [&] {
        while (!end->reached()) std::this_thread::yield();
      }(),
      "the task failed");
}

TEST_CASE("what a host task throws comes out of every wait, and later tasks are dropped") {
  const auto device = make_cuda_device(0);
  const auto queue = device->make_queue();
  const auto event = device->make_event();
  bool ran = false;
  queue->host([] { throw std::runtime_error("the task failed"); });
  queue->host([&] { ran = true; });
  queue->record(*event);
  CHECK_THROWS_WITH(event->synchronize(), "the task failed");
  CHECK_THROWS_WITH(queue->synchronize(), "the task failed");
  CHECK_FALSE(ran);
}

TEST_CASE("a queue that is destroyed while an exception passes waits for nothing") {
  const auto device = make_cuda_device(0);
  const auto fail = [&] {
    const auto queue = device->make_queue();
    queue->host([] { throw std::runtime_error("never waited for"); });
    throw Error("the rank failed");
  };
  CHECK_THROWS_WITH(fail(), "the rank failed");
}

TEST_CASE("operations on two queues use scratch of their own") {
  const auto device = make_cuda_device(0);
  const auto one = device->make_queue(), two = device->make_queue();
  constexpr int64_t rows = 200, width = 24;
  std::vector<float> values = counting(rows * width);
  for (float& value : values) value = value / 100.0F - 24.0F;
  const TensorBuffer x(*device, DType::f32, {1, rows, width}), dy(*device, DType::f32, {1, rows, width}),
      weight(*device, DType::f32, {width}), mean(*device, DType::f32, {rows}),
      rstd(*device, DType::f32, {rows}), y(*device, DType::f32, {1, rows, width});
  std::vector<float> ones(width, 1.0F);
  one->copy(weight, on_host(ones));
  one->copy(Tensor(x).view({rows * width}), on_host(values));
  one->copy(Tensor(dy).view({rows * width}), on_host(values));
  device->ops().add_norm({}, y, mean, rstd, x, {}, weight, {}, {}, *one);
  one->synchronize();
  std::vector<std::vector<float>> results;
  std::vector<TensorBuffer> kept;
  for (Queue* queue : {one.get(), two.get()}) {
    kept.emplace_back(*device, DType::f32, std::initializer_list<int64_t>{1, rows, width});
    kept.emplace_back(*device, DType::f32, std::initializer_list<int64_t>{width});
    device->ops().add_norm_backward(kept[kept.size() - 2], {}, kept.back(), {}, dy, x, mean, rstd, weight, {},
                                    Write::overwrite, Write::overwrite, *queue);
  }
  for (size_t i = 0; i < 2; ++i) {
    results.emplace_back(width);
    (i == 0 ? one : two)->copy(on_host(results.back()), kept[2 * i + 1]);
    (i == 0 ? one : two)->synchronize();
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] != std::vector<float>(width));
}
