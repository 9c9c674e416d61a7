#pragma once

#include "base/contracts.hpp"
#include "device/ops.hpp"

#include <cmath>
#include <cstdint>

namespace gpt {

/// A Dropout as kernels want it: which elements of sequence `b` of the tensor survive, and their scale.
struct DropoutPlan {
  uint64_t key = 0;
  uint32_t threshold = 0;  ///< bits below it drop the element
  float scale = 1.0F;
  uint32_t first_sequence = 0;
  uint32_t site = 0;
  uint32_t step = 0;

  constexpr bool active() const { return threshold != 0; }
};

inline DropoutPlan plan_dropout(const Dropout& dropout) {
  expects(dropout.rate >= 0.0F && dropout.rate < 1.0F);
  return {.key = dropout.seed,
          .threshold = static_cast<uint32_t>(std::ceil(static_cast<double>(dropout.rate) * 0x1p32)),
          .scale = 1.0F / (1.0F - dropout.rate),
          .first_sequence = static_cast<uint32_t>(dropout.first_sequence),
          .site = dropout.site,
          .step = dropout.step};
}

}  // namespace gpt
