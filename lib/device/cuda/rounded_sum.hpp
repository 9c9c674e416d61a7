#pragma once

#include "device/queue.hpp"
#include "device/tensor.hpp"

namespace gpt {

/// What one owner adds when f32 values travel as bf16: mine = ((0 + 1) + 2) + … over the members, of which
/// number `own` is `mine` as it is and the others are what arrived, in f32; the sum is rounded once to bf16
/// and kept as f32. mine (n) f32; arrived (members·n) bf16, by member, of which the own part is not read
void sum_rounded(Tensor mine, Tensor arrived, int own, Queue& queue);

}  // namespace gpt
