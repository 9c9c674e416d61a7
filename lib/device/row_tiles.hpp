#pragma once

#include "base/integers.hpp"

#include <cstdint>

namespace gpt {

/// Rows of a tile of logits: equal tiles of at most 1024. Fewer starve the product of the weight gradient.
constexpr int64_t classifier_tile_rows(int64_t rows) {
  constexpr int64_t most = 1024;
  return ceil_div(rows, ceil_div(rows, most));
}

}  // namespace gpt
