#include "train/guard.hpp"

#include "support/errors.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

namespace gpt {
namespace {

using test::failure;
using test::says;

SpikeDetector after(int64_t steps, double z = 8.0) {
  SpikeDetector detector(z);
  for (int64_t step = 0; step < steps; ++step)
    detector.add(3.0 + 0.1 * static_cast<double>(step % 5), 1.0 + 0.02 * static_cast<double>(step % 3));
  return detector;
}

TEST_CASE("nothing is a spike before enough is known, and never when it is off") {
  CHECK(std::isinf(after(SpikeDetector::least - 1).limits().loss));
  CHECK(std::isfinite(after(SpikeDetector::least).limits().loss));
  CHECK(std::isinf(after(100, 0.0).limits().loss));
  CHECK(std::isinf(after(100, 0.0).limits().grad_norm));
  CHECK(after(100, 0.0).state().empty());
}

TEST_CASE("the limit is so many deviations above the median") {
  // Losses 3.0, 3.1, … 3.4, each as often: median 3.2, median distance 0.1.
  const SpikeDetector::Limits limits = after(60).limits();
  CHECK(limits.loss == doctest::Approx(3.2 + 8.0 * 1.4826 * 0.1));
  CHECK(limits.grad_norm == doctest::Approx(1.02 + 8.0 * 1.4826 * 0.02));
}

TEST_CASE("figures that hardly move leave room") {
  SpikeDetector detector(10.0);
  for (int i = 0; i < 30; ++i) detector.add(2.0, 0.5);
  CHECK(detector.limits().loss == doctest::Approx(2.0 + 10.0 * 0.02));
  CHECK(detector.limits().grad_norm == doctest::Approx(0.5 + 10.0 * 0.005));
}

TEST_CASE("single outliers hardly move the limit, and what is old is forgotten") {
  SpikeDetector detector = after(60);
  const double before = detector.limits().loss;
  detector.add(1e6, 1e6);
  CHECK(detector.limits().loss < 1.2 * before);
  for (int64_t i = 0; i < SpikeDetector::window; ++i) detector.add(1.0, 1.0);
  CHECK(detector.limits().loss < 1.2);
}

TEST_CASE("what it remembers survives in a checkpoint, to the last bit") {
  SpikeDetector detector = after(70);
  detector.add(1.0 / 3.0, std::nextafter(1.0, 2.0));
  SpikeDetector other(8.0);
  other.restore(detector.state());
  CHECK(other.state() == detector.state());
  CHECK(other.limits().loss == detector.limits().loss);
  CHECK(other.limits().grad_norm == detector.limits().grad_norm);
  other.restore("");
  CHECK(other.state().empty());
  for (const char* text : {"{", "{\"losses\": [1]}", "{\"losses\": [1], \"grad_norms\": []}"})
    says(failure(ExitCode::damaged, [&] { other.restore(text); }), text[1] == '\0' ? "cannot be read" : "");
}

TEST_CASE("policies have names") {
  CHECK(on_bad_step_named("skip") == OnBadStep::skip);
  says(failure(ExitCode::usage, [] { on_bad_step_named("hope"); }), "--on-bad-step hope: use one of stop");
}

}  // namespace
}  // namespace gpt
