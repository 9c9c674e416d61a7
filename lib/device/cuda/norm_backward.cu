#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/drop.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/norm_rows.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/reduce.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda/sum_rows.hpp"

namespace gpt {
namespace {

template <class Element>
struct NormBackward {
  float* dx;
  Element* d_delta;  ///< or null
  float* partial;    ///< (blocks, 2, width): gradients of weight and bias
  const Element* dy;
  const float* sum;
  const float* mean;
  const float* rstd;
  const float* weight;
  int64_t rows, width, positions;
  bool accumulate;
  DropoutPlan dropout;
};

/// One lane's part of a row: dy, what the norm made of x, and dy·weight.
template <int N>
struct RowPart {
  Floats<N> dy, normed, gradient;

  template <class Element>
  __device__ RowPart(const NormBackward<Element>& norm, int64_t row, int64_t i) {
    dy = load_floats<N>(norm.dy + row * norm.width + i);
    normed = load_pack<N>(norm.sum + row * norm.width + i);
    gradient = load_pack<N>(norm.weight + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      normed[k] = (normed[k] - norm.mean[row]) * norm.rstd[row];
      gradient[k] *= dy[k];
    }
  }
};

/// dx and d_delta of a row. Its part of the parameter gradients is added to `d_weight` and `d_bias` in shared
/// memory, where each lane has its own columns.
template <int N, class Element>
__device__ void backward_of_row(const NormBackward<Element>& norm, int64_t row, float* d_weight,
                                float* d_bias) {
  float gradients = 0.0F, products = 0.0F;
  for (int64_t i = warp_lane() * N; i < norm.width; i += warp_lanes * N) {
    const RowPart<N> part(norm, row, i);
    Floats<N> weights = load_pack<N>(d_weight + i), biases = load_pack<N>(d_bias + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      weights[k] += part.dy[k] * part.normed[k];
      biases[k] += part.dy[k];
      gradients += part.gradient[k];
      products += part.gradient[k] * part.normed[k];
    }
    store_pack<N>(d_weight + i, weights);
    store_pack<N>(d_bias + i, biases);
  }
  const float width = static_cast<float>(norm.width);
  const float mean_gradient = warp_sum(gradients) / width, mean_product = warp_sum(products) / width;

  const float rstd = norm.rstd[row];
  for (int64_t i = warp_lane() * N; i < norm.width; i += warp_lanes * N) {
    const RowPart<N> part(norm, row, i);
    float* const to = norm.dx + row * norm.width + i;
    Floats<N> result{};
    if (norm.accumulate) result = load_pack<N>(to);
#pragma unroll
    for (int k = 0; k < N; ++k)
      result[k] += rstd * (part.gradient[k] - mean_gradient - part.normed[k] * mean_product);
    store_pack<N>(to, result);
    if (norm.d_delta == nullptr) continue;
    drop(result, norm.dropout, row / norm.positions, row % norm.positions * norm.width + i);
    store_floats<N>(norm.d_delta + row * norm.width + i, result);
  }
}

template <int N, class Element>
__global__ void add_norm_backward_kernel(NormBackward<Element> norm) {
  const int64_t width = norm.width;
  float* const all = dynamic_shared<float>();  // (warps, 2, width)
  float* const own = all + warp_in_block() * 2 * width;
  for (int64_t i = warp_lane() * N; i < width; i += warp_lanes * N) {
    store_pack<N>(own + i, Floats<N>{});
    store_pack<N>(own + width + i, Floats<N>{});
  }
  const int64_t begin = int64_t{blockIdx.x} * norm_rows_a_block;
  const int64_t end = begin + norm_rows_a_block < norm.rows ? begin + norm_rows_a_block : norm.rows;
  for (int64_t row = begin + warp_in_block(); row < end; row += warps_in_block())
    backward_of_row<N>(norm, row, own, own + width);
  __syncthreads();
  float* const to = norm.partial + int64_t{blockIdx.x} * 2 * width;
  for (int64_t i = threadIdx.x; i < 2 * width; i += blockDim.x) {
    float sum = 0.0F;
    for (int warp = 0; warp < warps_in_block(); ++warp) sum += all[warp * 2 * width + i];
    to[i] = sum;
  }
}

}  // namespace

void CudaOps::add_norm_backward(Tensor dx, Tensor d_delta, Tensor d_weight, Tensor d_bias, Tensor dy,
                                Tensor sum, Tensor mean, Tensor rstd, Tensor weight, const Dropout& dropout,
                                Write dx_write, Write write, Queue& queue) {
  const int64_t width = sum.columns(), rows = sum.rows(), blocks = ceil_div(rows, norm_rows_a_block);
  CudaQueue& order = cuda_queue(queue);
  auto* const partial = reinterpret_cast<float*>(order.scratch(norm_partial_bytes(rows, width)));
  with_element(dy.dtype(), [&]<class Element>(Element) {
    const NormBackward<Element> norm{.dx = dx.data<float>(),
                                     .d_delta = d_delta.data<Element>(),
                                     .partial = partial,
                                     .dy = dy.data<Element>(),
                                     .sum = sum.data<float>(),
                                     .mean = mean.data<float>(),
                                     .rstd = rstd.data<float>(),
                                     .weight = weight.data<float>(),
                                     .rows = rows,
                                     .width = width,
                                     .positions = sum.dim(1),
                                     .accumulate = dx_write == Write::accumulate,
                                     .dropout = plan_dropout(dropout)};
    const bool packs = width % 4 == 0 && aligned(norm.dx, norm.d_delta, norm.dy, norm.sum, norm.weight);
    const int64_t bytes_a_warp = 2 * width * size_of(DType::f32);
    const int warps = warps_for(bytes_a_warp);
    const Grid grid{.blocks = blocks,
                    .threads = warps * warp_lanes,
                    .shared_bytes = static_cast<size_t>(warps * bytes_a_warp)};
    with_pack<4>(packs, [&]<int N>(std::integral_constant<int, N>) {
      launch(add_norm_backward_kernel<N, Element>, grid, order.stream(), norm);
    });
  });
  const bool adds = write == Write::accumulate;
  sum_rows(d_weight.data<float>(), partial, {.rows = blocks, .columns = width, .stride = 2 * width}, adds,
           order.stream());
  if (d_bias)
    sum_rows(d_bias.data<float>(), partial + width, {.rows = blocks, .columns = width, .stride = 2 * width},
             adds, order.stream());
}

}  // namespace gpt
