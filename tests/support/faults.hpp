#pragma once

#include "base/fault.hpp"

#include <cstdlib>
#include <string>

namespace gpt::test {

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
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
};

}  // namespace gpt::test
