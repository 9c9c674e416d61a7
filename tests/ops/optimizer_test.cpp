#include "harness.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <vector>

using namespace gpt;
using namespace gpt::test;

namespace {

constexpr int64_t sizes[] = {1, 15, 1023, 1024, 1025, 10000, 65536};
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

double scalar(const Guarded& scalars, StepScalar which) {
  return Tensor(scalars).data<double>()[static_cast<int>(which)];
}

Guarded make_scalars(double loss_sum, double clip_scale, double accepted) {
  const Guarded scalars(DType::f64, {static_cast<int64_t>(StepScalar::count)});
  double* values = Tensor(scalars).data<double>();
  values[static_cast<int>(StepScalar::loss_sum)] = loss_sum;
  values[static_cast<int>(StepScalar::clip_scale)] = clip_scale;
  values[static_cast<int>(StepScalar::accepted)] = accepted;
  return scalars;
}

/// grad_norm, clip_scale and accepted for a gradient, through both operations.
Guarded clipped(Device& device, const Array& g, double loss_sum, const StepLimits& limits) {
  const int64_t size = static_cast<int64_t>(g.size());
  const Guarded sums(DType::f64, {ceil_div(size, 1024)});
  const Guarded scalars = make_scalars(loss_sum, not_a_number, not_a_number);
  const auto queue = device.make_queue();
  device.ops().square_sums(sums, Guarded({size}, g), *queue);
  device.ops().clip_scale(scalars, sums, limits, *queue);
  CHECK(sums.intact());
  CHECK(scalars.intact());
  return scalars;
}

}  // namespace

TEST_CASE("square_sums gives the sum of every block of 1024") {
  for (int64_t size : sizes)
    for (const auto& device : devices()) {
      INFO(case_name("square_sums", {size}), " on ", device->name());
      const Array g = random_floats(size, 1);
      Array expected(ceil_div(size, 1024));
      for (int64_t i = 0; i < size; ++i) expected[i / 1024] += g[i] * g[i];
      const Guarded sums(DType::f64, {ceil_div(size, 1024)});
      device->ops().square_sums(sums, Guarded({size}, g), *device->make_queue());
      CHECK(max_error(sums.values(), expected) < 1e-14);
      CHECK(sums.intact());
    }
}

TEST_CASE("square_sums holds squares that f32 cannot") {
  const Guarded scalars = clipped(*devices().front(), {1e25, 0.0, 1e25}, 1.0, {.clip = 1.0});
  CHECK(scalar(scalars, StepScalar::grad_norm) == doctest::Approx(std::sqrt(2.0) * 1e25));
  CHECK(scalar(scalars, StepScalar::accepted) == 1.0);
}

TEST_CASE("clip_scale limits the norm, and not when it is small or the limit is 0") {
  for (const auto& device : devices()) {
    const Array g(5000, 0.1);
    const double norm = static_cast<double>(0.1F) * std::sqrt(5000.0);
    const Guarded limited = clipped(*device, g, 3.0, {.clip = 1.0});
    CHECK(scalar(limited, StepScalar::grad_norm) == doctest::Approx(norm).epsilon(1e-12));
    CHECK(scalar(limited, StepScalar::clip_scale) == doctest::Approx(1.0 / (norm + 1e-6)).epsilon(1e-12));
    CHECK(scalar(limited, StepScalar::accepted) == 1.0);
    CHECK(scalar(limited, StepScalar::loss_sum) == 3.0);
    CHECK(scalar(clipped(*device, g, 3.0, {.clip = 100.0}), StepScalar::clip_scale) == 1.0);
    CHECK(scalar(clipped(*device, g, 3.0, {.clip = 0.0}), StepScalar::clip_scale) == 1.0);
  }
}

TEST_CASE("clip_scale sees a loss or gradient that is not finite") {
  for (const auto& device : devices()) {
    const Array good(3000, 0.1);
    for (double bad : {infinity, -infinity, not_a_number}) {
      for (size_t place : {size_t{0}, size_t{1500}, size_t{2999}}) {
        Array g = good;
        g[place] = bad;
        CHECK(scalar(clipped(*device, g, 1.0, {.clip = 1.0}), StepScalar::accepted) == 0.0);
      }
      CHECK(scalar(clipped(*device, good, bad, {.clip = 1.0}), StepScalar::accepted) == 0.0);
    }
    CHECK(scalar(clipped(*device, good, 1.0, {.clip = 1.0}), StepScalar::accepted) == 1.0);
  }
}

TEST_CASE("clip_scale accepts no loss and no norm above its limit") {
  for (const auto& device : devices()) {
    const Array g(3000, 0.1);
    const double norm = scalar(clipped(*device, g, 5.0, {}), StepScalar::grad_norm);
    CHECK(scalar(clipped(*device, g, 5.0, {.clip = 1.0, .loss_sum = 5.0, .grad_norm = norm}),
                 StepScalar::accepted) == 1.0);
    CHECK(scalar(clipped(*device, g, 5.0, {.loss_sum = 4.999}), StepScalar::accepted) == 0.0);
    CHECK(scalar(clipped(*device, g, 5.0, {.grad_norm = 0.999 * norm}), StepScalar::accepted) == 0.0);
  }
}

TEST_CASE("add adds every element once") {
  for (int64_t size : sizes)
    for (const auto& device : devices()) {
      INFO(case_name("add", {size}), " on ", device->name());
      const Array a = random_floats(size, 1), b = random_floats(size, 2);
      const Guarded sum({size}, a);
      device->ops().add(sum, Guarded({size}, b), *device->make_queue());
      const Array values = sum.values();
      for (int64_t i = 0; i < size; ++i)
        REQUIRE(values[i] == static_cast<double>(static_cast<float>(a[i]) + static_cast<float>(b[i])));
      CHECK(sum.intact());
    }
}

TEST_CASE("sum_in_order adds from left to right") {
  for (const auto& device : devices()) {
    const Guarded terms(DType::f64, {4}), sum(DType::f64, {1});
    double* const values = Tensor(terms).data<double>();
    values[0] = 1.0;
    values[1] = 1e17;  // takes the 1 up
    values[2] = -1e17;
    values[3] = 0.25;
    device->ops().sum_in_order(sum, terms, *device->make_queue());
    CHECK(*Tensor(sum).data<double>() == 0.25);
    CHECK(sum.intact());
  }
}

TEST_CASE("sum_in_order adds more terms than threads bring at a time") {
  constexpr int64_t count = 1000;
  const Array terms = random_values(count, 1);
  const double expected = std::accumulate(terms.begin(), terms.end(), 0.0);
  const Guarded in(DType::f64, {count}), sum(DType::f64, {1});
  std::copy(terms.begin(), terms.end(), Tensor(in).data<double>());
  for (const auto& device : devices()) {
    device->ops().sum_in_order(sum, in, *device->make_queue());
    CHECK(*Tensor(sum).data<double>() == expected);
  }
}

TEST_CASE("adamw agrees with the reference over several steps") {
  for (int64_t size : sizes)
    for (bool has_half : {false, true})
      for (const auto& device : devices()) {
        INFO(case_name("adamw", {size, has_half}), " on ", device->name());
        AdamWStep step{.lr = 1e-2F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .weight_decay = 0.1F};
        reference::AdamWState expected{random_floats(size, 1), Array(size), Array(size)};
        const Guarded p({size}, expected.p);
        const Guarded m({size}, expected.m);
        const Guarded v({size}, expected.v);
        const Guarded half(DType::bf16, {size});
        const Guarded scalars = make_scalars(1.0, 0.5, 1.0);
        const auto queue = device->make_queue();
        for (step.step = 1; step.step <= 3; ++step.step) {
          const Array g = random_floats(size, 10 + static_cast<uint64_t>(step.step));
          reference::adamw(expected, g, 0.5, step);
          device->ops().adamw(p, has_half ? Tensor(half) : Tensor{}, m, v, Guarded({size}, g), scalars, step,
                              *queue);
        }
        CHECK(max_error(p.values(), expected.p) < tolerance);
        CHECK(max_error(m.values(), expected.m) < tolerance);
        CHECK(max_error(v.values(), expected.v) < tolerance);
        for (const Guarded* output : {&p, &m, &v, &half, &scalars}) CHECK(output->intact());
        const Array rounded = half.values();
        const Array exact = p.values();
        for (int64_t i = 0; i < size && has_half; ++i)
          REQUIRE(rounded[i] ==
                  static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(exact[i])))));
      }
}

TEST_CASE("adamw and add reach the end of arrays that are longer than a GPU's grid") {
  constexpr int64_t size = (int64_t{8192} * 256 + 1) * 4;  // a pack of 4 for each thread, and one more
  for (Device* device : {devices().front().get(), devices().back().get()}) {
    std::vector<float> p(size, 1.0F), m(size), v(size), g(size, 1.0F);
    const auto of = [](std::vector<float>& values) { return Tensor(values.data(), DType::f32, {size}); };
    const auto queue = device->make_queue();
    device->ops().adamw(of(p), {}, of(m), of(v), of(g), make_scalars(1.0, 1.0, 1.0), {.lr = 0.1F}, *queue);
    device->ops().add(of(g), of(m), *queue);
    for (const std::vector<float>* values : {&p, &m, &v, &g})
      CHECK(std::count(values->begin(), values->end(), values->front()) == size);
    CHECK(p.front() != 1.0F);
    CHECK(g.front() > 1.0F);
  }
}

TEST_CASE("adamw changes nothing when the step is not finite") {
  const Array start = random_floats(100, 1);
  const Guarded p({100}, start);
  const Guarded m({100}, start);
  const Guarded v({100}, start);
  for (const auto& device : devices()) {
    device->ops().adamw(p, {}, m, v, Guarded({100}, Array(100, not_a_number)),
                        make_scalars(not_a_number, not_a_number, 0.0), {.lr = 1.0F}, *device->make_queue());
    for (const Guarded* tensor : {&p, &m, &v}) CHECK(tensor->values() == start);
  }
}

TEST_CASE("zero parameters without gradient stay zero") {
  const Guarded p({50}, Array(50));
  const Guarded m({50}, Array(50));
  const Guarded v({50}, Array(50));
  const auto& device = devices().front();
  device->ops().adamw(p, {}, m, v, Guarded({50}, Array(50)), make_scalars(1.0, 1.0, 1.0),
                      {.lr = 1.0F, .weight_decay = 0.1F}, *device->make_queue());
  for (const Guarded* tensor : {&p, &m, &v}) CHECK(tensor->values() == Array(50));
}
