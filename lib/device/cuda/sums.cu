#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/reduce.hpp"
#include "device/cuda/sums.hpp"

namespace gpt {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) add_sum_kernel(double* sum, const double* terms, int64_t count) {
  __shared__ double partial[threads / warp_lanes];
  double own = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += threads) own += terms[i];
  const double total = block_sum(own, partial);
  if (threadIdx.x == 0) *sum += total;
}

/// Σ terms from left to right, on thread 0, by a block whose other threads bring the terms: one addition
/// after the other is what the order asks for, and 2 ns each.
__device__ double ordered_sum(const double* terms, int64_t count) {
  __shared__ double tile[threads];
  double sum = 0.0;
  for (int64_t begin = 0; begin < count; begin += threads) {
    if (begin + threadIdx.x < count) tile[threadIdx.x] = terms[begin + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
      const int64_t here = count - begin < threads ? count - begin : threads;
      for (int64_t i = 0; i < here; ++i) sum += tile[i];
    }
    __syncthreads();
  }
  return sum;
}

__global__ void __launch_bounds__(threads)
    sum_in_order_kernel(double* sum, const double* terms, int64_t count) {
  const double total = ordered_sum(terms, count);
  if (threadIdx.x == 0) *sum = total;
}

__global__ void __launch_bounds__(threads)
    clip_scale_kernel(double* scalars, const double* sums, int64_t count, StepLimits limits) {
  const double total = ordered_sum(sums, count);
  if (threadIdx.x != 0) return;
  const double norm = sqrt(total);
  const double loss = scalars[static_cast<int>(StepScalar::loss_sum)];
  const double scale = limits.clip / (norm + 1e-6);
  const bool accepted =
      isfinite(norm) && isfinite(loss) && norm <= limits.grad_norm && loss <= limits.loss_sum;
  scalars[static_cast<int>(StepScalar::grad_norm)] = norm;
  scalars[static_cast<int>(StepScalar::clip_scale)] = limits.clip == 0.0 || !(scale < 1.0) ? 1.0 : scale;
  scalars[static_cast<int>(StepScalar::accepted)] = accepted ? 1.0 : 0.0;
}

constexpr int64_t square_block = 1024;

/// A warp for each block of 1024.
__global__ void __launch_bounds__(threads) square_sums_kernel(double* sums, const float* g, int64_t size) {
  const int64_t block = grid_thread() / warp_lanes, begin = block * square_block;
  if (begin >= size) return;
  const int64_t end = begin + square_block < size ? begin + square_block : size;
  double own = 0.0;
  for (int64_t i = begin + warp_lane(); i < end; i += warp_lanes) {
    const double value = static_cast<double>(g[i]);
    own += value * value;
  }
  const double total = warp_sum(own);
  if (warp_lane() == 0) sums[block] = total;
}

}  // namespace

void add_sum(double* sum, const double* terms, int64_t count, cudaStream_t stream) {
  launch(add_sum_kernel, {.threads = threads}, stream, sum, terms, count);
}

void CudaOps::sum_in_order(Tensor sum, Tensor terms, Queue& queue) {
  expects(sum.size() == 1);
  launch(sum_in_order_kernel, {.threads = threads}, cuda_queue(queue).stream(), sum.data<double>(),
         terms.data<double>(), terms.size());
}

void CudaOps::square_sums(Tensor sums, Tensor g, Queue& queue) {
  expects(sums.size() == ceil_div(g.size(), square_block));
  if (g.size() == 0) return;
  launch(square_sums_kernel, {.blocks = ceil_div(sums.size() * warp_lanes, threads), .threads = threads},
         cuda_queue(queue).stream(), sums.data<double>(), g.data<float>(), g.size());
}

void CudaOps::clip_scale(Tensor scalars, Tensor sums, const StepLimits& limits, Queue& queue) {
  expects(scalars.size() == static_cast<int64_t>(StepScalar::count));
  launch(clip_scale_kernel, {.threads = threads}, cuda_queue(queue).stream(), scalars.data<double>(),
         sums.data<double>(), sums.size(), limits);
}

}  // namespace gpt
