#pragma once

#include "base/bfloat16.hpp"
#include "base/integers.hpp"
#include "device/cpu/dropout.hpp"

#include <cstdint>

namespace gpt {

/// out = a + b in f32; out may be either
void add_rows(float* out, const float* a, const float* b, int64_t width);
void add_rows(float* out, const bfloat16* a, const bfloat16* b, int64_t width);

/// Drops elements of a row whose first element is number `first` in sequence `index` of the tensor. `factors`
/// is scratch of width + dropout_slack.
void drop_elements(float* row, const DropoutPlan& plan, int64_t index, int64_t first, int64_t width,
                   float* factors);

/// table[tokens[r], columns] += rows[r, columns], r in order.  table (·,width); rows (count,width)
void scatter_rows(float* table, const float* rows, const int32_t* tokens, int64_t count, int64_t width,
                  Range columns);

}  // namespace gpt
