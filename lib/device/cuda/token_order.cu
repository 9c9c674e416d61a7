#include "device/cuda/launch.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda/token_order.hpp"

#include <utility>

namespace gpt {
namespace {

constexpr int digit_bits = 8;
constexpr int digits = token_digits;
static_assert(digits == 1 << digit_bits);
constexpr int tile =
    digits;  // rows of a block, one a thread: as many as digits, one of which a thread counts

struct Pairs {
  int32_t* rows;
  int32_t* tokens;
};

__device__ __forceinline__ int digit_of(int32_t token, int shift) { return (token >> shift) & (digits - 1); }

__global__ void number_rows_kernel(Pairs to, const int32_t* tokens, int64_t rows) {
  for (int64_t i = grid_thread(); i < rows; i += grid_threads()) {
    to.rows[i] = static_cast<int32_t>(i);
    to.tokens[i] = tokens[i];
  }
}

/// counts (digits, blocks): how many rows of a block's tile have a digit.
__global__ void __launch_bounds__(tile)
    count_digits_kernel(int32_t* counts, const int32_t* tokens, int64_t rows, int shift) {
  __shared__ int here[tile];
  const int64_t begin = int64_t{blockIdx.x} * tile, row = begin + threadIdx.x;
  here[threadIdx.x] = row < rows ? digit_of(tokens[row], shift) : digits;
  __syncthreads();
  int count = 0;
  for (int i = 0; i < tile; ++i) count += here[i] == static_cast<int>(threadIdx.x) ? 1 : 0;
  counts[threadIdx.x * int64_t{gridDim.x} + blockIdx.x] = count;
}

constexpr int scan_threads = 1024;

/// counts[i] = Σ of the counts before i. One block: each thread has a contiguous part.
__global__ void __launch_bounds__(scan_threads) scan_kernel(int32_t* counts, int64_t size) {
  __shared__ int32_t totals[scan_threads];
  const int64_t part = (size + scan_threads - 1) / scan_threads;
  const int64_t begin = threadIdx.x * part, end = begin + part < size ? begin + part : size;
  int32_t total = 0;
  for (int64_t i = begin; i < end; ++i) total += counts[i];
  totals[threadIdx.x] = total;
  for (unsigned distance = 1; distance < scan_threads; distance *= 2) {
    __syncthreads();
    const int32_t before = threadIdx.x >= distance ? totals[threadIdx.x - distance] : 0;
    __syncthreads();
    totals[threadIdx.x] += before;
  }
  int32_t sum = totals[threadIdx.x] - total;
  for (int64_t i = begin; i < end; ++i) {
    const int32_t count = counts[i];
    counts[i] = sum;
    sum += count;
  }
}

/// Each row to its place: behind all smaller digits, behind equal ones of the tiles before and of the rows
/// before.
__global__ void __launch_bounds__(tile)
    place_rows_kernel(Pairs to, Pairs from, const int32_t* starts, int64_t rows, int shift) {
  __shared__ int here[tile];
  const int64_t row = int64_t{blockIdx.x} * tile + threadIdx.x;
  const int32_t token = row < rows ? from.tokens[row] : 0;
  const int digit = digit_of(token, shift);
  here[threadIdx.x] = row < rows ? digit : digits;
  __syncthreads();
  if (row >= rows) return;
  int before = 0;
  for (unsigned i = 0; i < threadIdx.x; ++i) before += here[i] == digit ? 1 : 0;
  const int64_t place = starts[digit * int64_t{gridDim.x} + blockIdx.x] + before;
  to.rows[place] = from.rows[row];
  to.tokens[place] = token;
}

}  // namespace

TokenOrder order_by_token(const int32_t* tokens, int64_t rows, int64_t vocabulary, std::byte* scratch,
                          cudaStream_t stream) {
  const TokenOrderAreas areas(rows);
  const auto at = [&](int64_t offset) { return reinterpret_cast<int32_t*>(scratch + offset); };
  Pairs from{at(areas.first_rows), at(areas.first_tokens)},
      to{at(areas.second_rows), at(areas.second_tokens)};
  int32_t* const counts = at(areas.counts);
  const int64_t blocks = ceil_div(rows, tile);
  launch(number_rows_kernel, grid_over(rows), stream, from, tokens, rows);
  for (int shift = 0; shift < 32 && (vocabulary - 1) >> shift > 0; shift += digit_bits) {
    launch(count_digits_kernel, {.blocks = blocks, .threads = tile}, stream, counts, from.tokens, rows,
           shift);
    launch(scan_kernel, {.blocks = 1, .threads = scan_threads}, stream, counts, digits * blocks);
    launch(place_rows_kernel, {.blocks = blocks, .threads = tile}, stream, to, from, counts, rows, shift);
    std::swap(from, to);
  }
  return {from.rows, from.tokens};
}

}  // namespace gpt
