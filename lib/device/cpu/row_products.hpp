#pragma once

#include "base/bfloat16.hpp"
#include "base/integers.hpp"

#include <cstdint>

namespace gpt {

/// y = x·Wᵀ + b for a few rows, with W read once: what takes time is that, and a general matrix product reads
/// at half the memory's pace.
template <class Weight>
struct RowProducts {
  float* y;         ///< (rows,out)
  const float* x;   ///< (rows,in)
  const Weight* w;  ///< (out,in)
  const float* b;   ///< (out) or null
  int64_t rows;
  int64_t in;
  int64_t out;
};

/// Columns `outputs` of y. The bits of a row depend neither on the other rows nor on how outputs are divided.
void multiply_rows(const RowProducts<float>& products, Range outputs);
void multiply_rows(const RowProducts<bfloat16>& products, Range outputs);

}  // namespace gpt
