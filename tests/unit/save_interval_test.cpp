#include "train/save_interval.hpp"

#include "train/duration.hpp"

#include <cmath>
#include <doctest/doctest.h>

namespace gpt {
namespace {

/// Share of the time that is lost to saves and failures when one is made after each `interval` seconds of
/// training (Daly 2006, eq. 20, without the time of restarts): exact for failures that come at random.
double lost_share(double interval, double cost, double mtbf) {
  return mtbf * std::expm1((interval + cost) / mtbf) / interval - 1;
}

TEST_CASE("Daly's interval loses least time") {
  for (const double mtbf : {100.0, 3600.0, 86400.0})
    for (const double cost : {1e-3 * mtbf, 1e-5 * mtbf, 0.05 * mtbf}) {
      const double best = daly_interval(cost, mtbf), least = lost_share(best, cost, mtbf);
      CHECK(least < lost_share(0.8 * best, cost, mtbf));
      CHECK(least < lost_share(1.25 * best, cost, mtbf));
    }
  CHECK(daly_interval(0.5, 86400) == doctest::Approx(std::sqrt(86400.0)).epsilon(0.01));  // Young's
  CHECK(daly_interval(200, 100) == 100);
  CHECK(daly_interval(1000, 100) == 100);
}

TEST_CASE("the first save comes early, and what it cost decides about the others") {
  SaveInterval interval(86400);
  CHECK(interval.seconds() == SaveInterval::first);
  CHECK(SaveInterval(100).seconds() == 10);
  interval.took_save(0.5, 3);
  CHECK(interval.cost() == 0.5);
  CHECK(interval.seconds() == daly_interval(0.5, 86400));
  interval.took_save(1.5, 3);
  CHECK(interval.cost() == 1.0);  // late ones count more
}

TEST_CASE("steps that are longer beside a save are its cost, shorter ones are none") {
  SaveInterval interval(86400);
  for (int step = 0; step < 10; ++step) interval.took_step(2, false);
  for (int step = 0; step < 4; ++step) interval.took_step(2.25, true);
  interval.took_save(0.5, 9);
  CHECK(interval.cost() == 1.5);
  for (int step = 0; step < 4; ++step) interval.took_step(1.75, true);
  interval.took_save(0.5, 9);
  CHECK(interval.cost() == 1.0);
}

TEST_CASE("an interval is bounded on either side") {
  SaveInterval rare(1e9);
  rare.took_save(100, 100);
  CHECK(rare.seconds() == SaveInterval::most);
  SaveInterval slow(100);
  slow.took_save(0.01, 60);  // the next one would have to wait for it
  CHECK(slow.seconds() == 60);
  SaveInterval huge(1e9);
  huge.took_save(10, 2 * SaveInterval::most);
  CHECK(huge.seconds() == 2 * SaveInterval::most);
  SaveInterval free(86400);
  free.took_save(0, 0);
  CHECK(free.seconds() > 0);
}

TEST_CASE("durations are read with their unit") {
  CHECK(parse_duration("90") == 90);
  CHECK(parse_duration("90s") == 90);
  CHECK(parse_duration("1.5m") == 90);
  CHECK(parse_duration("12h") == 43200);
  CHECK(parse_duration("7d") == 604800);
  for (const char* wrong : {"", "h", "-1", "0", "nan", "inf", "1e999", "12 h", "12hh", "1h30m", "1w", "1H"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_duration(wrong).has_value());
  }
}

}  // namespace
}  // namespace gpt
