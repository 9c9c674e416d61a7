#include "device/device.hpp"

#include "base/error.hpp"
#include "harness.hpp"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <sched.h>
#include <vector>

using namespace gpt;
using namespace gpt::test;

TEST_CASE("device memory is zeroed and aligned at every size" * doctest::test_suite("cpu")) {
  for (const auto& device : devices())
    for (int64_t bytes : {int64_t{1}, int64_t{63}, int64_t{4096}, (int64_t{2} << 20) - 1, int64_t{2} << 20,
                          (int64_t{5} << 20) + 12345}) {
      const Buffer buffer(*device, bytes);
      const auto* data = static_cast<const unsigned char*>(buffer.data());
      CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0);
      CHECK(std::accumulate(data, data + bytes, int64_t{0}) == 0);
    }
}

TEST_CASE("a request that no machine can serve is refused with its size" * doctest::test_suite("cpu")) {
  CHECK_THROWS_WITH_AS(Buffer(*devices().front(), int64_t{1} << 60),
                       doctest::Contains("no memory for 1099511627776"), Error);
}

TEST_CASE("a device says what it computes with, and refuses impossible thread counts" *
          doctest::test_suite("cpu")) {
  CHECK(devices().front()->name().find("CPU, 1 thread, ") == 0);
  const bool held_back = std::getenv("OMP_THREAD_LIMIT") != nullptr;
  CHECK(devices().back()->name().find(held_back ? "CPU, 1 thread (of 2, " : "CPU, 2 threads, ") == 0);
  if (const char* limited = std::getenv("GPT_TEST_INSTRUCTIONS"))
    CHECK(devices().front()->name().find("CPU, 1 thread, " + std::string(limited)) == 0);
  const std::string name = devices().front()->name();
  CHECK(name.find(", oneDNN 2.") != std::string::npos);
  CHECK((name.ends_with(" with AVX512_BF16") || name.ends_with(" with AMX")) ==
        devices().front()->multiplies(DType::bf16));
  CHECK_THROWS_AS(make_cpu_device(0), Error);
  CHECK_THROWS_AS(make_cpu_device(-3), Error);
}

TEST_CASE("usable_cores follows the affinity mask" * doctest::test_suite("cpu")) {
  cpu_set_t saved;
  REQUIRE(sched_getaffinity(0, sizeof(saved), &saved) == 0);
  CHECK(std::ssize(usable_cores()) == CPU_COUNT(&saved));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &saved)) {
      CPU_SET(core, &one);
      break;
    }
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(std::ssize(usable_cores()) == 1);
  REQUIRE(sched_setaffinity(0, sizeof(saved), &saved) == 0);
}

TEST_CASE("a queue copies and zeroes exactly its tensors, and runs host tasks in order") {
  for (const auto& device : devices())
    for (int64_t size : {1, 1000, 300000}) {
      const Array values = random_floats(size, 1);
      const Guarded source({size}, values);
      const Guarded target(DType::f32, {size});
      const auto queue = device->make_queue();
      const auto event = device->make_event();
      queue->copy(target, source);
      queue->record(*event);
      queue->wait(*event);
      Array seen;
      queue->host([&] { seen = target.values(); });
      queue->zero(target);
      queue->synchronize();
      event->synchronize();
      CHECK(seen == values);
      CHECK(target.values() == Array(size));
      CHECK(target.intact());
      CHECK(source.values() == values);
    }
}

TEST_CASE("cast rounds to the nearest bf16, ties to even, and widens exactly") {
  Array values = random_floats(5000, 1);
  for (double special : {0.0, -0.0, 1.00390625, 1.01171875, 3.4e38, std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity()})
    values.push_back(special);
  const int64_t size = static_cast<int64_t>(values.size());
  const Guarded source({size}, values);
  for (const auto& device : devices()) {
    const Guarded half(DType::bf16, {size});
    const Guarded back(DType::f32, {size});
    const auto queue = device->make_queue();
    device->ops().cast(half, source, *queue);
    device->ops().cast(back, half, *queue);
    for (int64_t i = 0; i < size; ++i)
      REQUIRE(Tensor(half).data<bfloat16>()[i].bits == bfloat16(static_cast<float>(values[i])).bits);
    CHECK(back.values() == half.values());
    CHECK(half.intact());
    CHECK(back.intact());
  }
}

TEST_CASE("cast rounds denormals, infinities and every NaN to the bits of bfloat16") {
  constexpr uint32_t lower_halves[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  std::vector<uint32_t> words;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower : lower_halves) words.push_back(upper << 16 | lower);
  const int64_t size = std::ssize(words);
  const Guarded source(DType::f32, {size});
  std::memcpy(Tensor(source).raw(), words.data(), words.size() * sizeof(uint32_t));
  const Guarded half(DType::bf16, {size});
  const auto& device = devices().back();
  device->ops().cast(half, source, *device->make_queue());
  int64_t wrong = 0;
  for (int64_t i = 0; i < size; ++i) {
    const bfloat16 expected(std::bit_cast<float>(words[static_cast<size_t>(i)]));
    wrong += Tensor(half).data<bfloat16>()[i].bits != expected.bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("denormal results are flushed in every thread" * doctest::test_suite("cpu")) {
  const int64_t size = 100000;
  const Array tiny(size, 1e-38);
  for (const auto& device : devices()) {
    const Guarded m({size}, tiny);
    const Guarded v({size}, Array(size));
    const Guarded p({size}, Array(size));
    const Guarded scalars(DType::f64, {static_cast<int64_t>(StepScalar::count)});
    for (int i = 0; i < static_cast<int>(StepScalar::count); ++i) Tensor(scalars).data<double>()[i] = 1.0;
    device->ops().adamw(p, {}, m, v, Guarded({size}, Array(size)), scalars, {.lr = 0.0F},
                        *device->make_queue());
    CHECK(m.values() == Array(size));
  }
}
