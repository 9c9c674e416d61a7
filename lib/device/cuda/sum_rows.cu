#include "device/cuda/launch.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda/sum_rows.hpp"

namespace gpt {
namespace {

constexpr int lanes = 32;  // columns of a block: neighbours, read together
constexpr int lines = 8;   // rows that a block reads at a time
constexpr int threads = lanes * lines;

/// A block for 32 columns and `a_block` rows: line l adds rows l, l + 8, …; then the lines are added in
/// order.
template <class Element>
__global__ void __launch_bounds__(threads)
    sum_rows_kernel(float* sums, const Element* x, RowArray shape, int64_t a_block, bool accumulate) {
  __shared__ float of_line[lines][lanes];
  const int64_t column_blocks = (shape.columns + lanes - 1) / lanes;
  const int64_t block = blockIdx.x / column_blocks;
  const int lane = static_cast<int>(threadIdx.x) % lanes, line = static_cast<int>(threadIdx.x) / lanes;
  const int64_t column = blockIdx.x % column_blocks * lanes + lane;
  const int64_t begin = block * a_block, end = begin + a_block < shape.rows ? begin + a_block : shape.rows;
  float sum = 0.0F;
  if (column < shape.columns)
    for (int64_t row = begin + line; row < end; row += lines) sum += to_float(x[row * shape.stride + column]);
  of_line[line][lane] = sum;
  __syncthreads();
  if (line != 0 || column >= shape.columns) return;
  float* const to = sums + block * shape.columns + column;
  float total = accumulate ? *to : 0.0F;
  for (int i = 0; i < lines; ++i) total += of_line[i][lane];
  *to = total;
}

template <class Element>
void sum(float* sums, const Element* x, const RowArray& shape, int64_t a_block, bool accumulate,
         cudaStream_t stream) {
  const int64_t blocks = ceil_div(shape.columns, lanes) * ceil_div(shape.rows, a_block);
  launch(sum_rows_kernel<Element>, {.blocks = blocks, .threads = threads}, stream, sums, x, shape, a_block,
         accumulate);
}

}  // namespace

void sum_rows(float* sums, const float* x, const RowArray& shape, bool accumulate, cudaStream_t stream) {
  sum(sums, x, shape, shape.rows, accumulate, stream);
}
void sum_rows(float* sums, const bfloat16* x, const RowArray& shape, bool accumulate, cudaStream_t stream) {
  sum(sums, x, shape, shape.rows, accumulate, stream);
}

void sum_blocks_of_rows(float* partial, const float* x, const RowArray& shape, cudaStream_t stream) {
  sum(partial, x, shape, sum_rows_block, false, stream);
}
void sum_blocks_of_rows(float* partial, const bfloat16* x, const RowArray& shape, cudaStream_t stream) {
  sum(partial, x, shape, sum_rows_block, false, stream);
}

}  // namespace gpt
