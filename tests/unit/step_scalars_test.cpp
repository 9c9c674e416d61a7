#include "train/step_scalars.hpp"

#include "device/device.hpp"

#include <doctest/doctest.h>

namespace gpt {
namespace {

struct Example {
  std::unique_ptr<Device> device = make_cpu_device(1);
  std::unique_ptr<Queue> queue = device->make_queue();
  StepScalars scalars{*device};

  /// A step whose loss is its own number.
  void send(int64_t step) {
    scalars.reset(*queue);
    queue->synchronize();
    double* const values = scalars.device().data<double>();
    CHECK(values[static_cast<int>(StepScalar::loss_sum)] == 0.0);
    values[static_cast<int>(StepScalar::loss_sum)] = static_cast<double>(step);
    values[static_cast<int>(StepScalar::grad_norm)] = 0.5 * static_cast<double>(step);
    values[static_cast<int>(StepScalar::accepted)] = step == 3 ? 0.0 : 1.0;
    scalars.send(step, *queue);
  }

  void check(bool drain, int64_t step) {
    CHECK(scalars.due(drain) == step);
    const auto values = scalars.receive(drain);
    REQUIRE(values.has_value());
    CHECK(values->step == step);
    CHECK(values->loss_sum == static_cast<double>(step));
    CHECK(values->grad_norm == 0.5 * static_cast<double>(step));
    CHECK(values->accepted == (step != 3));
  }
};

TEST_CASE("scalars arrive one step later, each once") {
  Example example;
  CHECK(!example.scalars.receive(false));
  CHECK(!example.scalars.receive(true));
  CHECK(!example.scalars.due(true));
  example.send(1);
  CHECK(!example.scalars.due(false));
  CHECK(!example.scalars.receive(false));
  for (int64_t step = 2; step <= 5; ++step) {
    example.send(step);
    example.check(false, step - 1);
    CHECK(!example.scalars.receive(false));
  }
  example.check(true, 5);
  CHECK(!example.scalars.receive(true));
  CHECK(!example.scalars.receive(false));
}

TEST_CASE("votes and the own loss arrive with the step, and are gone with the next") {
  Example example;
  const auto element = [&](StepScalar which) {
    return example.scalars.device().data<double>()[static_cast<int>(which)];
  };
  example.scalars.reset(*example.queue);
  example.scalars.vote(StepScalar::stop_votes, *example.queue);
  CHECK(element(StepScalar::stop_votes) == 1.0);
  CHECK(element(StepScalar::save_votes) == 0.0);
  example.scalars.device().data<double>()[static_cast<int>(StepScalar::own_loss)] = 2.5;
  example.scalars.send(7, *example.queue);
  const auto values = example.scalars.receive(true);
  REQUIRE(values.has_value());
  CHECK(values->stop_votes == 1);
  CHECK(values->save_votes == 0);
  CHECK(values->own_loss == 2.5);
  example.scalars.reset(*example.queue);
  CHECK(element(StepScalar::stop_votes) == 0.0);
}

TEST_CASE("after draining the steps go on") {
  Example example;
  example.send(1);
  example.check(true, 1);
  example.send(2);
  CHECK(!example.scalars.receive(false));
  example.send(4);
  example.check(false, 2);
  example.check(true, 4);
}

}  // namespace
}  // namespace gpt
