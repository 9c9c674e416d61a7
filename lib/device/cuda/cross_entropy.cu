#include "device/cuda/cross_entropy.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/reduce.hpp"

#include <cfloat>

namespace gpt {
namespace {

constexpr int threads = 256;  // a block for each row

/// The target is summed apart from the others: p − 1 is −Σ others/sum, which p near 1 would round away.
template <bool with_gradient, int N, class Element>
__global__ void __launch_bounds__(threads)
    cross_entropy_kernel(double* losses, LogitsTile<Element> tile, float scale) {
  __shared__ float partial[threads / warp_lanes];
  __shared__ double partial_sums[threads / warp_lanes];
  const int64_t row = blockIdx.x, target = tile.targets[row];
  Element* const logits = tile.logits + row * tile.padded;
  const float of_target = to_float(logits[target]);

  float most = -FLT_MAX, sum = 0.0F;  // of the others that this thread has seen
  for (int64_t i = int64_t{threadIdx.x} * N; i < tile.vocabulary; i += threads * N) {
    const Floats<N> values = load_floats<N>(logits + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (i + k >= tile.vocabulary || i + k == target) continue;
      const float next = fmaxf(most, values[k]);
      sum = sum * expf(most - next) + expf(values[k] - next);
      most = next;
    }
  }
  const float largest = block_max(fmaxf(most, of_target), partial);
  const double others = block_sum(static_cast<double>(sum * expf(most - largest)), partial_sums);
  const double all = others + exp(static_cast<double>(of_target) - static_cast<double>(largest));
  if (threadIdx.x == 0)
    losses[row] = log(all) + static_cast<double>(largest) - static_cast<double>(of_target);
  if constexpr (with_gradient) {
    const double factor = static_cast<double>(scale) / all;
    const float factor_of_others = static_cast<float>(factor);
    for (int64_t i = int64_t{threadIdx.x} * N; i < tile.padded; i += threads * N) {
      Floats<N> values = load_floats<N>(logits + i);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float gradient = i + k == target ? static_cast<float>(-factor * others)
                                               : expf(values[k] - largest) * factor_of_others;
        values[k] = i + k < tile.vocabulary ? gradient : 0.0F;
      }
      store_floats<N>(logits + i, values);
    }
  }
}

template <bool with_gradient, class Element>
void start(double* losses, const LogitsTile<Element>& tile, float scale, cudaStream_t stream) {
  constexpr int most = 16 / sizeof(Element);
  with_pack<most>(tile.padded % most == 0 && aligned(tile.logits),
                  [&]<int N>(std::integral_constant<int, N>) {
                    launch(cross_entropy_kernel<with_gradient, N, Element>,
                           {.blocks = tile.rows, .threads = threads}, stream, losses, tile, scale);
                  });
}

}  // namespace

void cross_entropy(double* losses, const LogitsTile<float>& tile, cudaStream_t stream) {
  start<false>(losses, tile, 1.0F, stream);
}
void cross_entropy(double* losses, const LogitsTile<bfloat16>& tile, cudaStream_t stream) {
  start<false>(losses, tile, 1.0F, stream);
}

void cross_entropy_gradient(double* losses, const LogitsTile<float>& tile, float scale, cudaStream_t stream) {
  start<true>(losses, tile, scale, stream);
}
void cross_entropy_gradient(double* losses, const LogitsTile<bfloat16>& tile, float scale,
                            cudaStream_t stream) {
  start<true>(losses, tile, scale, stream);
}

}  // namespace gpt
