#include "device/cuda/element_type.hpp"
#include "device/cuda/few_rows.hpp"
#include "device/cuda/gelu.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/reduce.hpp"

namespace gpt {
namespace {

constexpr int threads = 128;  // a warp for each output

template <class Element>
struct FewRows {
  const Element* x;  ///< (rows,in)
  const Element* w;  ///< (out,in)
  const float* b;    ///< (out) or null
  int64_t rows, in, out;
};

/// pre is null where there is no activation.
template <int N, class Element, class Result>
__global__ void __launch_bounds__(threads) few_rows_kernel(Result* y, Result* pre, FewRows<Element> linear) {
  const int64_t output = grid_thread() / warp_lanes;
  if (output >= linear.out) return;
  float sums[few_rows] = {};
  for (int64_t i = warp_lane() * N; i < linear.in; i += warp_lanes * N) {
    const Floats<N> weights = load_floats<N>(linear.w + output * linear.in + i);
#pragma unroll
    for (int64_t row = 0; row < few_rows; ++row) {
      if (row >= linear.rows) break;
      const Floats<N> values = load_floats<N>(linear.x + row * linear.in + i);
#pragma unroll
      for (int k = 0; k < N; ++k) sums[row] += values[k] * weights[k];
    }
  }
  const float bias = linear.b == nullptr ? 0.0F : linear.b[output];
#pragma unroll
  for (int64_t row = 0; row < few_rows; ++row) {
    if (row >= linear.rows) break;
    const Result result = from_float<Result>(warp_sum(sums[row]) + bias);
    if (warp_lane() != 0) continue;
    const int64_t at = row * linear.out + output;
    if (pre == nullptr) {
      y[at] = result;
    } else {
      pre[at] = result;
      y[at] = from_float<Result>(gelu_of(to_float(result)));
    }
  }
}

template <class Element, class Result>
void start(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, cudaStream_t stream) {
  const FewRows<Element> linear{.x = x.data<Element>(),
                                .w = w.data<Element>(),
                                .b = b.data<float>(),
                                .rows = x.rows(),
                                .in = x.columns(),
                                .out = w.dim(0)};
  constexpr int most = 16 / sizeof(Element);
  with_pack<most>(linear.in % most == 0 && aligned(linear.x, linear.w),
                  [&]<int N>(std::integral_constant<int, N>) {
                    launch(few_rows_kernel<N, Element, Result>,
                           {.blocks = ceil_div(linear.out * warp_lanes, threads), .threads = threads}, stream,
                           y.data<Result>(), pre.data<Result>(), linear);
                  });
}

}  // namespace

void linear_of_few_rows(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, cudaStream_t stream) {
  with_element(x.dtype(), [&]<class Element>(Element) {
    if (y.dtype() == x.dtype())
      start<Element, Element>(y, pre, x, w, b, stream);
    else
      start<Element, float>(y, pre, x, w, b, stream);
  });
}

}  // namespace gpt
