#include "train/schedule.hpp"

#include <doctest/doctest.h>

using namespace gpt;

namespace {

TrainOptions options(const std::string& shape) {
  TrainOptions o;
  o.schedule = shape;
  o.lr = 1.0;
  o.min_lr = 0.1;
  o.warmup = 9;
  return o;
}

}  // namespace

TEST_CASE("every schedule warms up linearly") {
  for (const char* shape : {"constant", "cosine", "linear", "wsd"}) {
    const Schedule schedule(options(shape), 100);
    CHECK(schedule.learning_rate(0) == doctest::Approx(0.1));
    CHECK(schedule.learning_rate(4) == doctest::Approx(0.5));
    CHECK(schedule.learning_rate(9) == doctest::Approx(1.0));
  }
}

TEST_CASE("schedules reach what their names say") {
  const Schedule cosine(options("cosine"), 109), linear(options("linear"), 109), wsd(options("wsd"), 100),
      constant(options("constant"), 109);
  CHECK(cosine.learning_rate(59) == doctest::Approx(0.55));
  CHECK(cosine.learning_rate(34) == doctest::Approx(0.1 + 0.9 * 0.85355339));
  CHECK(cosine.learning_rate(109) == doctest::Approx(0.1));
  CHECK(cosine.learning_rate(5000) == doctest::Approx(0.1));
  CHECK(linear.learning_rate(59) == doctest::Approx(0.55));
  CHECK(constant.learning_rate(108) == 1.0);
  CHECK(wsd.learning_rate(79) == 1.0);
  CHECK(wsd.learning_rate(90) == doctest::Approx(0.55));
  CHECK(wsd.learning_rate(100) == doctest::Approx(0.1));
}

TEST_CASE("a larger batch scales the learning rate as asked") {
  TrainOptions o = options("constant");
  o.global_batch = 128;
  o.lr_scaling = "linear";
  CHECK(Schedule(o, 100).learning_rate(50) == doctest::Approx(4.0));
  o.lr_scaling = "sqrt";
  CHECK(Schedule(o, 100).learning_rate(50) == doctest::Approx(2.0));
  o.schedule = "cosine";
  CHECK(Schedule(o, 100).learning_rate(100) == doctest::Approx(0.2));
}

TEST_CASE("a warm-up longer than the run, and a run of no steps, have rates") {
  TrainOptions o = options("cosine");
  o.warmup = 500;
  CHECK(Schedule(o, 100).learning_rate(99) == doctest::Approx(100.0 / 501.0));
  o.warmup = 0;
  CHECK(Schedule(o, 0).learning_rate(0) == doctest::Approx(1.0));
}
