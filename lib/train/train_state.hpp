#pragma once

#include "base/integers.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Where training stands.
struct TrainState {
  int64_t step = 0;            ///< optimizer steps done
  int64_t last_update = 0;     ///< the last step that the optimizer took: its draws have rounded the weights
  int64_t cursor = 0;          ///< windows consumed per lane
  std::vector<Range> skipped;  ///< windows of each lane passed over, which the cursor does not count (Lanes)
  std::string spikes;          ///< what the spike detector remembers
};

}  // namespace gpt
