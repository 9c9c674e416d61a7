#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>

namespace gpt {

/// Rows in ascending order of their tokens; rows of one token stay in order.
struct TokenOrder {
  const int32_t* rows;
  const int32_t* tokens;
};

/// Sorts by counting, 8 bits of the tokens at a time: no atomics, and as many passes as the vocabulary has
/// bytes. The result lies in `scratch`, which is cut as TokenOrderAreas says.
TokenOrder order_by_token(const int32_t* tokens, int64_t rows, int64_t vocabulary, std::byte* scratch,
                          cudaStream_t stream);

}  // namespace gpt
