#include "device/adamw_factors.hpp"
#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/stochastic_rounding.hpp"

namespace gpt {
namespace {

struct AdamWArrays {
  float* p;
  bfloat16* half;  ///< or null
  float* m;
  float* v;
  const float* g;
  int64_t size;
};

/// One pass over everything; the clipping factor and whether to do anything at all are read here, so that the
/// host need not know them.
template <int N, bool stochastic>
__global__ void adamw_kernel(AdamWArrays arrays, AdamWFactors f, const double* scalars,
                             WeightRounding rounding) {
  if (scalars[static_cast<int>(StepScalar::accepted)] == 0.0) return;
  const float clip = static_cast<float>(scalars[static_cast<int>(StepScalar::clip_scale)]);
  for (int64_t i = grid_thread() * N; i < arrays.size; i += grid_threads() * N) {
    Floats<N> p = load_pack<N>(arrays.p + i), m = load_pack<N>(arrays.m + i), v = load_pack<N>(arrays.v + i);
    const Floats<N> g = load_pack<N>(arrays.g + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float gradient = g[k] * clip;
      m[k] = f.beta1 * m[k] + f.one_minus_beta1 * gradient;
      v[k] = f.beta2 * v[k] + f.one_minus_beta2 * (gradient * gradient);
      p[k] = f.decay * p[k] - f.rate * (m[k] / (f.root * sqrtf(v[k]) + f.eps));
    }
    store_pack<N>(arrays.m + i, m);
    store_pack<N>(arrays.v + i, v);
    store_pack<N>(arrays.p + i, p);
    if constexpr (stochastic)
      store_stochastically<N>(arrays.half + i, p, rounding, i);
    else if (arrays.half != nullptr)
      store_floats<N>(arrays.half + i, p);
  }
}

}  // namespace

void CudaOps::adamw(Tensor p, Tensor half, Tensor m, Tensor v, Tensor g, Tensor scalars,
                    const AdamWStep& step, Queue& queue) {
  expects(m.size() == p.size() && v.size() == p.size() && g.size() == p.size());
  expects((!half || half.size() == p.size()) && step.step >= 1);
  if (p.size() == 0) return;
  const AdamWArrays arrays{.p = p.data<float>(),
                           .half = half.data<bfloat16>(),
                           .m = m.data<float>(),
                           .v = v.data<float>(),
                           .g = g.data<float>(),
                           .size = p.size()};
  const bool stochastic = half && step.rounding.stochastic;
  const bool packs = arrays.size % 4 == 0 && aligned(arrays.p, arrays.half, arrays.m, arrays.v, arrays.g) &&
                     (!stochastic || step.rounding.first % 4 == 0);
  with_pack<4>(packs, [&]<int N>(std::integral_constant<int, N>) {
    const auto kernel = stochastic ? adamw_kernel<N, true> : adamw_kernel<N, false>;
    launch(kernel, grid_over(arrays.size / N), cuda_queue(queue).stream(), arrays, adamw_factors(step),
           scalars.data<double>(), step.rounding);
  });
}

}  // namespace gpt
