#include "base/fault.hpp"

#include "base/error.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <string>

using namespace gpt;

namespace {

/// Faults of one test case; none afterwards.
struct Faults {
  explicit Faults(const std::string& text, int rank = 0) {
    setenv("GPT_FAULT", text.c_str(), 1);
    configure_faults(rank);
  }
  ~Faults() {
    unsetenv("GPT_FAULT");
    configure_faults(0);
    set_fault_step(0);
  }
};

}  // namespace

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
       {"here", "here:explode", "here:kill@rank=x", "here:kill@day=3", "here:delay=soon"}) {
    const Faults nothing("");
    setenv("GPT_FAULT", text, 1);
    CHECK_THROWS_AS(configure_faults(0), Error);
  }
}
