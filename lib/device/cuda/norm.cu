#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/drop.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/norm_rows.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/reduce.hpp"

namespace gpt {
namespace {

constexpr float epsilon = 1e-5F;

template <class Element>
struct NormForward {
  float* sum;  ///< null: x is normed
  Element* y;
  float* mean;
  float* rstd;
  const float* x;
  const Element* delta;
  const float* weight;
  const float* bias;
  int64_t rows, width, positions;
  DropoutPlan dropout;
};

/// A warp for each row. The row waits in shared memory, where each lane reads only what it wrote itself,
/// while its mean and then its variance are known.
template <int N, class Element>
__global__ void add_norm_kernel(NormForward<Element> norm) {
  const int64_t row = grid_thread() / warp_lanes;
  if (row >= norm.rows) return;
  float* const kept = dynamic_shared<float>() + warp_in_block() * norm.width;
  const int64_t begin = row * norm.width;
  const float width = static_cast<float>(norm.width);
  float total = 0.0F;
  for (int64_t i = warp_lane() * N; i < norm.width; i += warp_lanes * N) {
    Floats<N> values = load_pack<N>(norm.x + begin + i);
    if (norm.delta != nullptr) {
      Floats<N> delta = load_floats<N>(norm.delta + begin + i);
      drop(delta, norm.dropout, row / norm.positions, row % norm.positions * norm.width + i);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] += delta[k];
      store_pack<N>(norm.sum + begin + i, values);
    }
    store_pack<N>(kept + i, values);
#pragma unroll
    for (int k = 0; k < N; ++k) total += values[k];
  }
  const float mean = warp_sum(total) / width;

  float squares = 0.0F;
  for (int64_t i = warp_lane() * N; i < norm.width; i += warp_lanes * N) {
    const Floats<N> values = load_pack<N>(kept + i);
#pragma unroll
    for (int k = 0; k < N; ++k) squares += (values[k] - mean) * (values[k] - mean);
  }
  const float rstd = 1.0F / sqrtf(warp_sum(squares) / width + epsilon);

  for (int64_t i = warp_lane() * N; i < norm.width; i += warp_lanes * N) {
    Floats<N> values = load_pack<N>(kept + i);
    const Floats<N> weight = load_pack<N>(norm.weight + i);
    Floats<N> bias{};
    if (norm.bias != nullptr) bias = load_pack<N>(norm.bias + i);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = (values[k] - mean) * rstd * weight[k] + bias[k];
    store_floats<N>(norm.y + begin + i, values);
  }
  if (warp_lane() == 0) {
    norm.mean[row] = mean;
    norm.rstd[row] = rstd;
  }
}

}  // namespace

void CudaOps::add_norm(Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor delta, Tensor weight,
                       Tensor bias, const Dropout& dropout, Queue& queue) {
  const int64_t width = x.columns();
  expects(y.size() == x.size() && weight.size() == width && mean.size() == x.rows());
  expects(!delta || (delta.size() == x.size() && sum.size() == x.size()));
  with_element(y.dtype(), [&]<class Element>(Element) {
    const NormForward<Element> norm{.sum = delta ? sum.data<float>() : nullptr,
                                    .y = y.data<Element>(),
                                    .mean = mean.data<float>(),
                                    .rstd = rstd.data<float>(),
                                    .x = x.data<float>(),
                                    .delta = delta.data<Element>(),
                                    .weight = weight.data<float>(),
                                    .bias = bias.data<float>(),
                                    .rows = x.rows(),
                                    .width = width,
                                    .positions = x.dim(1),
                                    .dropout = plan_dropout(dropout)};
    const bool packs =
        width % 4 == 0 && aligned(norm.sum, norm.y, norm.x, norm.delta, norm.weight, norm.bias);
    const int warps = warps_for(width * size_of(DType::f32));
    const Grid grid{.blocks = ceil_div(norm.rows, warps),
                    .threads = warps * warp_lanes,
                    .shared_bytes = static_cast<size_t>(warps * width * size_of(DType::f32))};
    with_pack<4>(packs, [&]<int N>(std::integral_constant<int, N>) {
      launch(add_norm_kernel<N, Element>, grid, cuda_queue(queue).stream(), norm);
    });
  });
}

}  // namespace gpt
