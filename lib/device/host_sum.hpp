#pragma once

#include "device/tensor.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// One of the arrays that are added, in host memory.
struct Summand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  DType travels_as = dtype;  ///< bf16: f32 values count as rounded to it
};

/// The order in which arrays are added, as a postfix expression: i ≥ 0 puts summand i on a stack, add_top
/// adds the two topmost.
using SumOrder = std::vector<int>;
inline constexpr int add_top = -1;

/// ((0 + 1) + 2) + …
SumOrder in_turn(int summands);

/// Neighbours first: (0 + 1) + (2 + 3), and so on up; one without a partner goes up alone.
SumOrder as_tree(int summands);

/// out[i] = the summands' elements i, added in `order`; on the calling thread, at memory speed. Adds in f32
/// (f64 when out is f64, as all summands are then), and rounds once at the end, to out's type: to bf16 if the
/// sum `travels_as` that, though out be f32. `out` may be one of the summands. With one summand it is a
/// conversion. @throws Error for i32
void sum_arrays(Tensor out, std::span<const Summand> summands, std::span<const int> order, DType travels_as);
inline void sum_arrays(Tensor out, std::span<const Summand> summands, std::span<const int> order) {
  sum_arrays(out, summands, order, out.dtype());
}

}  // namespace gpt
