#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/drop.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/packed.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda/token_order.hpp"

namespace gpt {
namespace {

template <int N, class Element>
__global__ void embed_kernel(float* x, const int32_t* tokens, const Element* wte, const Element* wpe,
                             int64_t rows, int64_t positions, int64_t width, int64_t first_position,
                             DropoutPlan dropout) {
  const int64_t packs = width / N;
  for (int64_t i = grid_thread(); i < rows * packs; i += grid_threads()) {
    const int64_t row = i / packs, column = i % packs * N, position = row % positions;
    Floats<N> sum = load_floats<N>(wte + tokens[row] * width + column);
    const Floats<N> of_position = load_floats<N>(wpe + (first_position + position) * width + column);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += of_position[k];
    drop(sum, dropout, row / positions, position * width + column);
    store_floats<N>(x + row * width + column, sum);
  }
}

template <int N>
__global__ void drop_rows_kernel(float* x, int64_t size, int64_t a_sequence, DropoutPlan dropout) {
  for (int64_t i = grid_thread() * N; i < size; i += grid_threads() * N) {
    Floats<N> values = load_pack<N>(x + i);
    drop(values, dropout, i / a_sequence, i % a_sequence);
    store_pack<N>(x + i, values);
  }
}

template <int N>
__global__ void position_gradients_kernel(float* d_wpe, const float* dx, int64_t sequences, int64_t positions,
                                          int64_t context, int64_t width, bool accumulate) {
  const int64_t packs = width / N;
  for (int64_t i = grid_thread(); i < context * packs; i += grid_threads()) {
    const int64_t position = i / packs;
    Floats<N> sum{};
    if (accumulate) sum = load_pack<N>(d_wpe + i * N);
    if (position < positions)
      for (int64_t sequence = 0; sequence < sequences; ++sequence) {
        const Floats<N> term = load_pack<N>(dx + sequence * positions * width + i * N);
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += term[k];
      }
    store_pack<N>(d_wpe + i * N, sum);
  }
}

/// Rows in the order of their tokens, and windows of them: a run of rows with one token is summed by pieces,
/// at most one in each window, so that a token that fills the batch does not keep one block busy for long.
struct OrderedRows {
  const int32_t* rows;    ///< which row of dx is the i-th
  const int32_t* tokens;  ///< its token, ascending
  int64_t count;
  int64_t width;

  static constexpr int64_t window = token_window;

  __device__ bool begins_run(int64_t i) const { return i == 0 || tokens[i - 1] != tokens[i]; }
  __device__ int64_t window_end(int64_t i) const {
    const int64_t end = (i / window + 1) * window;
    return end < count ? end : count;
  }
};

/// A block for each row that begins a piece. What continues a run from the window before goes to `heads`
/// (windows, width), to be added when it is complete.
__global__ void token_pieces_kernel(float* d_wte, float* heads, const float* dx, OrderedRows order) {
  const int64_t begin = blockIdx.x;
  const bool begins_run = order.begins_run(begin);
  if (!begins_run && begin % OrderedRows::window != 0) return;
  const int32_t token = order.tokens[begin];
  const int64_t limit = order.window_end(begin);
  int64_t end = begin + 1;
  while (end < limit && order.tokens[end] == token) ++end;
  float* const to =
      begins_run ? d_wte + token * order.width : heads + begin / OrderedRows::window * order.width;
  for (int64_t column = threadIdx.x; column < order.width; column += blockDim.x) {
    float sum = begins_run ? to[column] : 0.0F;
    for (int64_t i = begin; i < end; ++i) sum += dx[order.rows[i] * order.width + column];
    to[column] = sum;
  }
}

/// A block for each window whose last row begins or goes on a run that began in it and does not end in it:
/// adds the pieces of the windows behind.
__global__ void token_heads_kernel(float* d_wte, const float* heads, OrderedRows order) {
  const int64_t begin = int64_t{blockIdx.x} * OrderedRows::window, end = order.window_end(begin);
  const int32_t token = order.tokens[end - 1];
  const bool goes_on = end < order.count && order.tokens[end] == token;
  const bool began_here = order.begins_run(begin) || order.tokens[begin] != token;
  if (!goes_on || !began_here) return;
  for (int64_t column = threadIdx.x; column < order.width; column += blockDim.x) {
    float sum = d_wte[token * order.width + column];
    for (int64_t i = end; i < order.count && order.tokens[i] == token; i += OrderedRows::window)
      sum += heads[i / OrderedRows::window * order.width + column];
    d_wte[token * order.width + column] = sum;
  }
}

}  // namespace

void CudaOps::embed(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, int64_t first_position,
                    const Dropout& dropout, Queue& queue) {
  const int64_t width = x.columns(), positions = tokens.columns();
  expects(tokens.size() == x.rows() && wte.dim(1) == width && wpe.dim(1) == width);
  expects(first_position >= 0 && first_position + positions <= wpe.dim(0));
  with_element(wte.dtype(), [&]<class Element>(Element) {
    const bool packs = width % 4 == 0 && aligned(x.raw(), wte.raw(), wpe.raw());
    with_pack<4>(packs, [&]<int N>(std::integral_constant<int, N>) {
      launch(embed_kernel<N, Element>, grid_over(x.size() / N), cuda_queue(queue).stream(), x.data<float>(),
             tokens.data<int32_t>(), wte.data<Element>(), wpe.data<Element>(), x.rows(), positions, width,
             first_position, plan_dropout(dropout));
    });
  });
}

void CudaOps::embed_backward(Tensor d_wte, Tensor d_wpe, Tensor dx, Tensor tokens, const Dropout& dropout,
                             Write wpe_write, Queue& queue) {
  const int64_t width = dx.columns(), rows = dx.rows(), positions = tokens.columns();
  expects(tokens.size() == rows && d_wte.dim(1) == width && d_wpe.dim(1) == width);
  expects(positions <= d_wpe.dim(0));
  CudaQueue& order = cuda_queue(queue);
  const cudaStream_t stream = order.stream();
  const DropoutPlan plan = plan_dropout(dropout);
  with_pack<4>(width % 4 == 0 && aligned(dx.raw(), d_wpe.raw()), [&]<int N>(std::integral_constant<int, N>) {
    if (plan.active())
      launch(drop_rows_kernel<N>, grid_over(dx.size() / N), stream, dx.data<float>(), dx.size(),
             positions * width, plan);
    launch(position_gradients_kernel<N>, grid_over(d_wpe.size() / N), stream, d_wpe.data<float>(),
           dx.data<float>(), rows / positions, positions, d_wpe.dim(0), width,
           wpe_write == Write::accumulate);
  });

  const int64_t windows = ceil_div(rows, OrderedRows::window);
  const EmbeddingAreas at(rows, width);
  std::byte* const scratch = order.scratch(at.total);
  auto* const heads = reinterpret_cast<float*>(scratch + at.heads);
  const TokenOrder sorted =
      order_by_token(tokens.data<int32_t>(), rows, d_wte.dim(0), scratch + at.order, stream);
  const OrderedRows by_token{.rows = sorted.rows, .tokens = sorted.tokens, .count = rows, .width = width};
  launch(token_pieces_kernel, {.blocks = rows}, stream, d_wte.data<float>(), heads, dx.data<float>(),
         by_token);
  launch(token_heads_kernel, {.blocks = windows}, stream, d_wte.data<float>(), heads, by_token);
}

}  // namespace gpt
