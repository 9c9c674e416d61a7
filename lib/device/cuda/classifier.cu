#include "device/cuda/cross_entropy.hpp"
#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/element_type.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda/sums.hpp"
#include "device/row_tiles.hpp"

#include <algorithm>

namespace gpt {

void CudaOps::classifier(Tensor loss_sum, Tensor dx, Tensor dw, Tensor x, Tensor w, Tensor targets,
                         int64_t vocabulary, float scale, Write write, Queue& queue) {
  const int64_t rows = x.rows(), width = x.columns(), padded = w.dim(0);
  expects(w.dim(1) == width && targets.size() == rows && vocabulary >= 1 && vocabulary <= padded);
  expects(!dx == !dw && loss_sum.dtype() == DType::f64);
  CudaQueue& order = cuda_queue(queue);
  const int64_t tile_rows = classifier_tile_rows(rows);
  const ClassifierAreas at(rows, tile_rows, padded, x.dtype());
  std::byte* const scratch = order.scratch(at.total);
  auto* const losses = reinterpret_cast<double*>(scratch + at.losses);
  const ColumnMatrix weights{.data = w.raw(), .type = w.dtype(), .rows = width, .columns = padded};

  for (int64_t begin = 0; begin < rows; begin += tile_rows) {
    const Range tile{begin, std::min(begin + tile_rows, rows)};
    const auto rows_of = [&](const Tensor& tensor) {
      return ColumnMatrix{.data = tensor.view({rows, width}).slice(tile).raw(),
                          .type = tensor.dtype(),
                          .rows = width,
                          .columns = tile.size()};
    };
    const ColumnMatrix logits{
        .data = scratch + at.logits, .type = x.dtype(), .rows = padded, .columns = tile.size()};
    products_.multiply({.transpose_a = true, .a = weights, .b = rows_of(x), .d = logits}, order);
    with_element(x.dtype(), [&]<class Element>(Element) {
      const LogitsTile<Element> part{.logits = static_cast<Element*>(logits.data),
                                     .targets = targets.data<int32_t>() + tile.begin,
                                     .rows = tile.size(),
                                     .vocabulary = vocabulary,
                                     .padded = padded};
      if (dx)
        cross_entropy_gradient(losses + tile.begin, part, scale, order.stream());
      else
        cross_entropy(losses + tile.begin, part, order.stream());
    });
    if (!dx) continue;
    products_.multiply({.a = weights, .b = logits, .d = rows_of(dx)}, order);
    products_.multiply({.transpose_b = true,
                        .a = rows_of(x),
                        .b = logits,
                        .d = {.data = dw.raw(), .type = DType::f32, .rows = width, .columns = padded},
                        .accumulate = begin > 0 || write == Write::accumulate},
                       order);
  }
  add_sum(loss_sum.data<double>(), losses, rows, order.stream());
}

}  // namespace gpt
