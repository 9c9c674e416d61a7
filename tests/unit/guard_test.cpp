#include "train/guard.hpp"

#include "support/errors.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

namespace gpt {
namespace {

using test::failure;
using test::says;

constexpr int64_t far = 1000;  // a step at which all that was added counts

SpikeDetector after(int64_t steps, double z = 8.0) {
  SpikeDetector detector(z);
  for (int64_t step = 0; step < steps; ++step)
    detector.add(step, 3.0 + 0.1 * static_cast<double>(step % 5), 1.0 + 0.02 * static_cast<double>(step % 3));
  return detector;
}

TEST_CASE("nothing is a spike before enough is known, and never when it is off") {
  CHECK(std::isinf(after(SpikeDetector::least - 1).limits(far).loss));
  CHECK(std::isfinite(after(SpikeDetector::least).limits(far).loss));
  CHECK(std::isinf(after(100, 0.0).limits(far).loss));
  CHECK(std::isinf(after(100, 0.0).limits(far).grad_norm));
  CHECK(after(100, 0.0).state().empty());
}

TEST_CASE("the limit is so many deviations above the median") {
  // Losses 3.0, 3.1, … 3.4, each as often: median 3.2, median distance 0.1.
  const SpikeDetector::Limits limits = after(60).limits(far);
  CHECK(limits.loss == doctest::Approx(3.2 + 8.0 * 1.4826 * 0.1));
  CHECK(limits.grad_norm == doctest::Approx(1.02 + 8.0 * 1.4826 * 0.02));
}

TEST_CASE("figures that hardly move leave room") {
  SpikeDetector detector(10.0);
  for (int i = 0; i < 30; ++i) detector.add(i, 2.0, 0.5);
  CHECK(detector.limits(far).loss == doctest::Approx(2.0 + 10.0 * 0.02));
  CHECK(detector.limits(far).grad_norm == doctest::Approx(0.5 + 10.0 * 0.005));
}

TEST_CASE("single outliers hardly move the limit, and what is old is forgotten") {
  SpikeDetector detector = after(60);
  const double before = detector.limits(far).loss;
  detector.add(60, 1e6, 1e6);
  CHECK(detector.limits(far).loss < 1.2 * before);
  for (int64_t i = 0; i <= SpikeDetector::window; ++i) detector.add(61 + i, 1.0, 1.0);
  CHECK(detector.limits(far).loss < 1.2);
}

TEST_CASE("what it remembers survives in a checkpoint, to the last bit") {
  SpikeDetector detector = after(70);
  detector.add(70, 1.0 / 3.0, std::nextafter(1.0, 2.0));
  SpikeDetector other(8.0);
  other.restore(detector.state());
  CHECK(other.state() == detector.state());
  CHECK(other.limits(far).loss == detector.limits(far).loss);
  CHECK(other.limits(far).grad_norm == detector.limits(far).grad_norm);
  other.restore("");
  CHECK(other.state().empty());
  for (const char* text : {"{", "[1]", "[[1, 2]]", "[[1, \"a\", 2]]"})
    says(failure(ExitCode::damaged, [&] { other.restore(text); }), "cannot be read");
}

TEST_CASE("the limit of a step does not depend on whether the step before has been heard of") {
  SpikeDetector late = after(40), early = after(40);
  early.add(40, 9.0, 9.0);
  CHECK(late.limits(41).loss == early.limits(41).loss);
  CHECK(late.limits(41).grad_norm == early.limits(41).grad_norm);
  for (int64_t step = 41; step < 90; ++step) early.add(step, 9.0, 9.0);
  CHECK(early.limits(90).loss > late.limits(41).loss);
}

TEST_CASE("policies have names") {
  CHECK(on_bad_step_named("skip") == OnBadStep::skip);
  says(failure(ExitCode::usage, [] { on_bad_step_named("hope"); }), "--on-bad-step hope: use one of stop");
}

}  // namespace
}  // namespace gpt
