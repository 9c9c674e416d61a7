#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/elementwise.hpp"
#include "device/cuda/gelu.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/stochastic_rounding.hpp"

namespace gpt {
namespace {

struct Gelu {
  __device__ float operator()(float, float x) const { return gelu_of(x); }
};
struct TimesGeluSlope {
  __device__ float operator()(float d, float x) const { return d * gelu_slope(x); }
};
struct Sum {
  __device__ float operator()(float y, float x) const { return y + x; }
};

/// y = f(y, x), element by element; `reads`: whether f looks at y.
template <int N, bool reads, class Element, class Function>
__global__ void combine_kernel(Element* y, const Element* x, int64_t size, Function f) {
  for (int64_t i = grid_thread() * N; i < size; i += grid_threads() * N) {
    Floats<N> values{};
    if constexpr (reads) values = load_floats<N>(y + i);
    const Floats<N> others = load_floats<N>(x + i);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = f(values[k], others[k]);
    store_floats<N>(y + i, values);
  }
}

template <bool reads, class Function>
void combine(const Tensor& y, const Tensor& x, Function f, cudaStream_t stream) {
  expects(y.size() == x.size() && y.dtype() == x.dtype());
  with_element(y.dtype(), [&]<class Element>(Element) {
    constexpr int most = 16 / sizeof(Element);
    with_pack<most>(y.size() % most == 0 && aligned(y.raw(), x.raw()),
                    [&]<int N>(std::integral_constant<int, N>) {
                      launch(combine_kernel<N, reads, Element, Function>, grid_over(y.size() / N), stream,
                             y.data<Element>(), x.data<Element>(), y.size(), f);
                    });
  });
}

template <class Element>
__global__ void add_to_rows_kernel(Element* y, const float* b, int64_t size, int64_t columns) {
  for (int64_t i = grid_thread(); i < size; i += grid_threads())
    y[i] = from_float<Element>(to_float(y[i]) + b[i % columns]);
}

/// All bits as bfloat16 rounds them, NaN's too.
template <int N>
__global__ void round_kernel(bfloat16* to, const float* from, int64_t size) {
  for (int64_t i = grid_thread() * N; i < size; i += grid_threads() * N) {
    const Pack<float, N> values = load_pack<N>(from + i);
    Pack<bfloat16, N> rounded;
#pragma unroll
    for (int k = 0; k < N; ++k) rounded[k] = bfloat16(values[k]);
    store_pack<N>(to + i, rounded);
  }
}

template <int N>
__global__ void round_stochastically_kernel(bfloat16* to, const float* from, int64_t size,
                                            WeightRounding rounding) {
  for (int64_t i = grid_thread() * N; i < size; i += grid_threads() * N)
    store_stochastically<N>(to + i, load_pack<N>(from + i), rounding, i);
}

template <int N>
__global__ void widen_kernel(float* to, const bfloat16* from, int64_t size) {
  for (int64_t i = grid_thread() * N; i < size; i += grid_threads() * N)
    store_pack<N>(to + i, load_floats<N>(from + i));
}

}  // namespace

void gelu(Tensor y, Tensor x, cudaStream_t stream) { combine<false>(y, x, Gelu(), stream); }

void multiply_by_gelu_slope(Tensor d, Tensor x, cudaStream_t stream) {
  combine<true>(d, x, TimesGeluSlope(), stream);
}

void add_to(Tensor y, Tensor x, cudaStream_t stream) { combine<true>(y, x, Sum(), stream); }

void add_to_rows(Tensor y, Tensor b, cudaStream_t stream) {
  with_element(y.dtype(), [&]<class Element>(Element) {
    launch(add_to_rows_kernel<Element>, grid_over(y.size()), stream, y.data<Element>(), b.data<float>(),
           y.size(), b.size());
  });
}

void convert(Tensor dst, Tensor src, cudaStream_t stream) {
  expects(dst.size() == src.size() && dst.dtype() != src.dtype());
  with_pack<4>(dst.size() % 4 == 0 && aligned(dst.raw(), src.raw()),
               [&]<int N>(std::integral_constant<int, N>) {
                 const Grid grid = grid_over(dst.size() / N);
                 if (dst.dtype() == DType::bf16)
                   launch(round_kernel<N>, grid, stream, dst.data<bfloat16>(), src.data<float>(), dst.size());
                 else
                   launch(widen_kernel<N>, grid, stream, dst.data<float>(), src.data<bfloat16>(), dst.size());
               });
}

void CudaOps::activate(Tensor y, Tensor pre, Activation activation, Queue& queue) {
  expects(activation == Activation::gelu);
  gelu(y, pre, cuda_queue(queue).stream());
}

void CudaOps::add(Tensor sum, Tensor x, Queue& queue) {
  expects(sum.dtype() == DType::f32);
  add_to(sum, x, cuda_queue(queue).stream());
}

void CudaOps::round(Tensor half, Tensor p, const WeightRounding& rounding, Queue& queue) {
  const cudaStream_t stream = cuda_queue(queue).stream();
  if (!rounding.stochastic) return convert(half, p, stream);
  expects(half.size() == p.size());
  with_pack<4>(p.size() % 4 == 0 && rounding.first % 4 == 0 && aligned(half.raw(), p.raw()),
               [&]<int N>(std::integral_constant<int, N>) {
                 launch(round_stochastically_kernel<N>, grid_over(p.size() / N), stream,
                        half.data<bfloat16>(), p.data<float>(), p.size(), rounding);
               });
}

void CudaOps::cast(Tensor dst, Tensor src, Queue& queue) {
  if (dst.dtype() == src.dtype())
    queue.copy(dst, src);
  else
    convert(dst, src, cuda_queue(queue).stream());
}

}  // namespace gpt
