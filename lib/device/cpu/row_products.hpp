#pragma once

#include "base/bfloat16.hpp"
#include "base/integers.hpp"

#include <cstdint>

namespace gpt {

/// Up to how many rows of x the kernel below is faster than a general matrix product: so far, reading W takes
/// longer than computing.
constexpr int64_t most_row_products = 8;

/// y = x·Wᵀ + b for a few rows, with W read once.
template <class Weight>
struct RowProducts {
  float* y;         ///< (rows,out)
  const float* x;   ///< (rows,in)
  const Weight* w;  ///< (out,in)
  const float* b;   ///< (out) or null
  int64_t rows;     ///< most_row_products at most
  int64_t in;
  int64_t out;
};

/// Columns `outputs` of y. The bits of a row depend neither on the other rows nor on how outputs are divided.
void multiply_rows(const RowProducts<float>& products, Range outputs);
void multiply_rows(const RowProducts<bfloat16>& products, Range outputs);

}  // namespace gpt
