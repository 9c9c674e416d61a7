#include "base/contracts.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/native.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/rounded_sum.hpp"

namespace gpt {
namespace {

/// mine (packs·N), arrived (members, packs·N). A thread adds N neighbours; each byte moves once, so that the
/// bound is memory: 2·(members − 1) + 8 bytes an element.
template <int N>
__global__ void sum_rounded_packs(float* mine, const bfloat16* arrived, int64_t packs, int members, int own) {
  for (int64_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    float* const place = mine + pack * N;
    Floats<N> sum{};
    for (int member = 0; member < members; ++member) {
      const Floats<N> term =
          member == own ? load_floats<N>(place) : load_floats<N>(arrived + (member * packs + pack) * N);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] = member == 0 ? term[i] : sum[i] + term[i];
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = to_float(from_float<bfloat16>(sum[i]));
    store_floats<N>(place, sum);
  }
}

}  // namespace

void sum_rounded(Tensor mine, Tensor arrived, int own, Queue& queue) {
  const int64_t size = mine.size();
  if (size == 0) return;
  expects(arrived.size() % size == 0);
  const auto members = static_cast<int>(arrived.size() / size);
  auto* const values = mine.data<float>();
  const auto* const others = arrived.data<bfloat16>();
  constexpr int wide = 8;  // bf16 in 16 bytes
  if (size % wide == 0 && aligned(values, others))
    launch(sum_rounded_packs<wide>, grid_over(size / wide), stream_of(queue), values, others, size / wide,
           members, own);
  else
    launch(sum_rounded_packs<1>, grid_over(size), stream_of(queue), values, others, size, members, own);
}

}  // namespace gpt
