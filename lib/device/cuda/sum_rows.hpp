#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>
#include <cuda_runtime.h>

namespace gpt {

struct RowArray {
  int64_t rows = 0, columns = 0;
  int64_t stride = 0;  ///< elements from a row to the next
};

/// sums[c] = or += Σ over rows of x[r·stride + c], in an order that follows from the shape alone. For a few
/// thousand rows at most: one block adds all rows of its columns.
void sum_rows(float* sums, const float* x, const RowArray& shape, bool accumulate, cudaStream_t stream);
void sum_rows(float* sums, const bfloat16* x, const RowArray& shape, bool accumulate, cudaStream_t stream);

/// For longer arrays, whose blocks of rows are summed first:
/// partial[b·columns + c] = Σ over the rows of block b, sum_rows_block of them each
void sum_blocks_of_rows(float* partial, const float* x, const RowArray& shape, cudaStream_t stream);
void sum_blocks_of_rows(float* partial, const bfloat16* x, const RowArray& shape, cudaStream_t stream);

}  // namespace gpt
