#include "base/fault.hpp"

#include "base/error.hpp"
#include "support/faults.hpp"

#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <set>

namespace gpt {

using test::Faults;

TEST_CASE("a fault acts at its point, step, rank and hit only") {
  const Faults faults("here:throw@rank=2,step=7,hit=2;elsewhere:throw@rank=1", 2);
  CHECK_NOTHROW(fault_point("elsewhere"));
  set_fault_step(7);
  CHECK_NOTHROW(fault_point("here"));
  CHECK_NOTHROW(fault_point("there"));
  CHECK_THROWS_AS(fault_point("here"), Error);
  CHECK_NOTHROW(fault_point("here"));
  set_fault_step(8);
  CHECK_NOTHROW(fault_point("here"));
}

TEST_CASE("without conditions a fault acts every time") {
  const Faults faults("here:throw");
  CHECK_THROWS_AS(fault_point("here"), Error);
  CHECK_THROWS_AS(fault_point("here"), Error);
}

TEST_CASE("malformed faults are refused") {
  for (const char* text :
       {"here", "here:explode", "here:kill@rank=x", "here:kill@day=3", "here:delay=soon", "here:jitter"}) {
    const Faults nothing("");
    setenv("GPT_FAULT", text, 1);
    CHECK_THROWS_AS(configure_faults(0), Error);
  }
}

TEST_CASE("a jitter takes another part of its time each time, on every rank its own") {
  std::set<int64_t> microseconds;
  for (const int rank : {0, 1}) {
    const Faults faults("here:jitter=4", rank);
    for (int hit = 0; hit < 8; ++hit) {
      const auto start = std::chrono::steady_clock::now();
      fault_point("here");
      const auto taken = std::chrono::steady_clock::now() - start;
      microseconds.insert(std::chrono::duration_cast<std::chrono::microseconds>(taken).count());
    }
  }
  CHECK(microseconds.size() > 8);
  CHECK(*microseconds.begin() < 2000);
  CHECK(*microseconds.rbegin() > 2000);
}

}  // namespace gpt
