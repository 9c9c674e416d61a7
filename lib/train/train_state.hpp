#pragma once

#include "base/integers.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// Where training stands.
struct TrainState {
  int64_t step = 0;            ///< optimizer steps done
  int64_t cursor = 0;          ///< windows consumed per lane
  std::vector<Range> skipped;  ///< cursor ranges passed over
};

}  // namespace gpt
