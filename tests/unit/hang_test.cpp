#include "comm/hang.hpp"

#include <doctest/doctest.h>
#include <limits>

namespace gpt {
namespace {

constexpr double timeout = 10.0;
const std::vector<std::string> hosts = {"n0", "n0", "n1", "n1"};

Sighting heard(int64_t entered, bool waiting, double quiet, double age = 0.1) {
  return {.status =
              {.entered = entered, .phase = Phase::step, .step = entered, .waiting = waiting, .quiet = quiet},
          .heard = true,
          .age = age};
}

Sighting silent(Sighting sighting, double unanswered) {
  sighting.unanswered = unanswered;
  return sighting;
}

std::optional<Hang> judge(const std::vector<Sighting>& ranks) { return find_hang(0, ranks, hosts, timeout); }

bool says(const std::optional<Hang>& hang, const std::string& words) {
  INFO((hang ? hang->reason : "no hang"), " should say: ", words);
  const bool found = hang && hang->reason.find(words) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("a job in which any rank ticks, and all answer, goes on") {
  const Sighting waits = heard(5, true, 99.0), ticks = heard(5, false, 0.2);
  CHECK(!judge({ticks, ticks, ticks, ticks}));
  CHECK(!judge({waits, waits, ticks, waits}));
  CHECK(!judge({ticks, waits, waits, waits}));
  CHECK(!judge({waits, waits, heard(5, false, 9.8, 0.1), waits}));
  CHECK(!judge({waits, waits, {}, waits}));  // it has not been asked for long
}

TEST_CASE("the rank that does not wait is the one that the others wait for") {
  const Sighting waits = heard(5, true, 10.1);
  const auto hang = judge({waits, waits, heard(5, false, 10.5), waits});
  REQUIRE(hang);
  CHECK(hang->rank == 2);
  CHECK(hang->status.step == 5);
  says(hang, "rank 2 on n1 stands still in step 5 for 10.6 s; ranks 0, 1, 3 wait for it in step 5");
}

TEST_CASE("a rank in an earlier phase is behind, whether it waits or not") {
  const Sighting waits = heard(5, true, 10.1);
  CHECK(judge({waits, heard(4, true, 10.1), waits, waits})->rank == 1);
  const auto two = judge({heard(4, false, 10.1), waits, waits, heard(4, false, 10.1)});
  says(two, "rank 0 on n0 stands still in step 4");
  says(two, "so does rank 3");
  says(two, "ranks 1, 2 wait for them in step 5");
}

TEST_CASE("of a silent rank it is said when it was heard last; the verdict is where the others wait") {
  const Sighting waits = heard(5, true, 10.1);
  const auto hang = judge({waits, silent(heard(2, false, 0.1), 9.0), waits, waits});
  REQUIRE(hang);
  CHECK(hang->rank == 1);
  CHECK(hang->status.step == 5);
  says(hang, "rank 1 on n0 does not answer for 9.0 s (stopped, dead or cut off, last heard of in step 2)");
  says(hang, "ranks 0, 2, 3 wait for it in step 5");
  says(judge({waits, waits, waits, silent({}, 9.0)}), "not heard of since the start");
}

TEST_CASE("a host that hears no other one says that it may be cut off itself") {
  const Sighting waits = heard(5, true, 10.1);
  const Sighting quiet = silent(waits, 9.0);
  says(judge({waits, waits, quiet, quiet}), "no other host answers n0: it may be cut off itself");
  for (const auto& ranks : {std::vector{waits, waits, quiet, waits}, std::vector{waits, quiet, quiet, quiet}})
    CHECK(judge(ranks)->reason.find("cut off itself") == std::string::npos);
}

TEST_CASE("a silent rank is no reason to end a job that needs it not yet, until the timeout") {
  const Sighting ticks = heard(5, false, 0.1);
  CHECK(!judge({ticks, ticks, ticks, silent(ticks, 9.9)}));
  CHECK(judge({ticks, ticks, ticks, silent(ticks, 10.0)})->rank == 3);
  // One that answers late for a moment is not to blame.
  CHECK(judge({heard(5, true, 10.1), heard(5, false, 10.1), heard(5, true, 10.1),
               silent(heard(5, true, 10.1), 0.2)})
            ->rank == 1);
}

TEST_CASE("when no rank is behind the message says so") {
  const Sighting waits = heard(5, true, 10.1);
  const auto hang = judge({waits, waits, waits, waits});
  says(hang, "no rank has made progress for 10.0 s: all stand in step 5");
  CHECK_FALSE(hang->rank);
  says(find_hang(0, {heard(5, false, 10.1)}, {"n0"}, timeout), "all stand in step 5");
}

TEST_CASE("many ranks are counted, not listed") {
  CHECK(list_ranks({7}) == "rank 7");
  CHECK(list_ranks({0, 1}) == "ranks 0, 1");
  CHECK(list_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

TEST_CASE("a place is named as a person would") {
  CHECK(describe({.phase = Phase::step, .step = 12}) == "step 12");
  CHECK(describe({.phase = Phase::save, .step = 20}) == "save at step 20");
  CHECK(describe({.phase = Phase::start}) == "start");
}

}  // namespace gpt
