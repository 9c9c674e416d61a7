#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/heads.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/reduce.hpp"

#include <cfloat>
#include <cmath>

namespace gpt {
namespace {

constexpr int threads = 128;  // a block for each query
constexpr int warps = threads / warp_lanes;

template <class Element>
struct Cached {
  Element* y;          ///< (B,n,C)
  Element* keys;       ///< (B,H,context,D)
  Element* values;     ///< as keys
  const Element* qkv;  ///< (B,n,3C)
  HeadShape shape;     ///< positions: n
  int64_t context;
  int64_t position;  ///< of the first new one
  int64_t items;     ///< B·H·n queries

  /// Where the row of new position i, head h of sequence b begins in qkv.
  __device__ int64_t row(int64_t item) const {
    const int64_t head = item / shape.positions;
    return (head / shape.heads * shape.positions + item % shape.positions) * 3 * shape.width() +
           head % shape.heads * shape.head_size;
  }
};

template <class Element>
__global__ void fill_caches_kernel(Cached<Element> cached) {
  const HeadShape& shape = cached.shape;
  for (int64_t i = grid_thread(); i < cached.items * shape.head_size; i += grid_threads()) {
    const int64_t item = i / shape.head_size, d = i % shape.head_size;
    const int64_t head = item / shape.positions, position = cached.position + item % shape.positions;
    const int64_t to = (head * cached.context + position) * shape.head_size + d;
    const Element* const from = cached.qkv + cached.row(item) + d;
    cached.keys[to] = from[shape.width()];
    cached.values[to] = from[2 * shape.width()];
  }
}

/// A block for a query: its warps share the keys, 32 of them at a time, a key a lane. Each warp keeps its own
/// largest score, sum and weighted values; the block joins them in the order of warps.
template <class Element>
__global__ void __launch_bounds__(threads) attend_kernel(Cached<Element> cached, float scale) {
  const int64_t size = cached.shape.head_size;
  float* const q = dynamic_shared<float>();                    // (D)
  float* const own = q + size + warp_in_block() * (size + 2);  // weighted values (D), largest score, sum
  const int64_t item = blockIdx.x, seen = cached.position + item % cached.shape.positions + 1;
  const Element* const query = cached.qkv + cached.row(item);
  for (int64_t d = threadIdx.x; d < size; d += threads) q[d] = to_float(query[d]);
  for (int64_t d = warp_lane(); d < size; d += warp_lanes) own[d] = 0.0F;
  __syncthreads();

  const int64_t first = item / cached.shape.positions * cached.context * size;
  float most = -FLT_MAX, sum = 0.0F;
  for (int64_t begin = warp_in_block() * warp_lanes; begin < seen; begin += threads) {
    const int64_t key = begin + warp_lane();
    float score = -FLT_MAX;
    if (key < seen) {
      float product = 0.0F;
      for (int64_t d = 0; d < size; ++d) product += q[d] * to_float(cached.keys[first + key * size + d]);
      score = product * scale;
    }
    const float next = fmaxf(most, warp_max(score));
    const float weight = key < seen ? expf(score - next) : 0.0F;
    const float shrink = expf(most - next);
    sum = sum * shrink + warp_sum(weight);
    most = next;
    const int count = static_cast<int>(seen - begin < warp_lanes ? seen - begin : warp_lanes);
    // Lanes without a column take part in the shuffles.
    for (int64_t tile = 0; tile < size; tile += warp_lanes) {
      const int64_t d = tile + warp_lane();
      float value = 0.0F;
      for (int i = 0; i < count; ++i) {
        const float of_key = __shfl_sync(all_lanes, weight, i);
        if (d < size) value += of_key * to_float(cached.values[first + (begin + i) * size + d]);
      }
      if (d < size) own[d] = own[d] * shrink + value;
    }
  }
  if (warp_lane() == 0) {
    own[size] = most;
    own[size + 1] = sum;
  }
  __syncthreads();

  const float* const all = q + size;
  float largest = -FLT_MAX, total = 0.0F;
  for (int warp = 0; warp < warps; ++warp) largest = fmaxf(largest, all[warp * (size + 2) + size]);
  for (int warp = 0; warp < warps; ++warp)
    total += all[warp * (size + 2) + size + 1] * expf(all[warp * (size + 2) + size] - largest);
  Element* const y = cached.y + cached.row(item) / (3 * cached.shape.width()) * cached.shape.width() +
                     item / cached.shape.positions % cached.shape.heads * size;
  for (int64_t d = threadIdx.x; d < size; d += threads) {
    float value = 0.0F;
    for (int warp = 0; warp < warps; ++warp)
      value += all[warp * (size + 2) + d] * expf(all[warp * (size + 2) + size] - largest);
    y[d] = from_float<Element>(value / total);
  }
}

}  // namespace

void CudaOps::attention_cached(Tensor y, Tensor keys, Tensor values, Tensor qkv, int64_t position,
                               int64_t heads, Queue& queue) {
  const HeadShape shape{.positions = qkv.dim(1), .heads = heads, .head_size = qkv.columns() / 3 / heads};
  const int64_t context = keys.dim(2);
  expects(qkv.columns() == 3 * shape.width() && 3 * y.size() == qkv.size());
  expects(keys.size() == values.size() && keys.dim(1) == heads);
  expects(keys.size() == qkv.dim(0) * heads * context * shape.head_size);
  expects(position >= 0 && position + shape.positions <= context);
  with_element(qkv.dtype(), [&]<class Element>(Element) {
    const Cached<Element> cached{.y = y.data<Element>(),
                                 .keys = keys.data<Element>(),
                                 .values = values.data<Element>(),
                                 .qkv = qkv.data<Element>(),
                                 .shape = shape,
                                 .context = context,
                                 .position = position,
                                 .items = qkv.dim(0) * heads * shape.positions};
    const cudaStream_t stream = cuda_queue(queue).stream();
    launch(fill_caches_kernel<Element>, grid_over(cached.items * shape.head_size), stream, cached);
    const size_t floats = static_cast<size_t>(shape.head_size + warps * (shape.head_size + 2));
    launch(attend_kernel<Element>,
           {.blocks = cached.items, .threads = threads, .shared_bytes = floats * sizeof(float)}, stream,
           cached, 1.0F / std::sqrt(static_cast<float>(shape.head_size)));
  });
}

}  // namespace gpt
