#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/cross_entropy.hpp"
#include "device/cpu/element_type.hpp"
#include "device/cpu/parallel.hpp"
#include "device/row_tiles.hpp"

#include <algorithm>

namespace gpt {
void CpuOps::classifier(Tensor loss_sum, Tensor dx, Tensor dw, Tensor x, Tensor w, Tensor targets,
                        int64_t vocabulary, float scale, Write write, Queue&) {
  const int64_t rows = x.rows();
  const int64_t width = x.columns();
  const int64_t padded = w.dim(0);
  expects(w.dim(1) == width && targets.size() == rows && vocabulary >= 1 && vocabulary <= padded);
  expects(!dx == !dw && loss_sum.dtype() == DType::f64);
  expect_activations({dx, x, w});
  const int64_t tile_rows = classifier_tile_rows(rows);
  logits_.reserve(ceil_div(tile_rows * padded * size_of(x.dtype()), size_of(DType::f32)));
  losses_.resize(static_cast<size_t>(rows));
  const Tensor hidden = x.view({rows, width});
  const Tensor d_hidden = dx ? dx.view({rows, width}) : Tensor{};

  for (int64_t begin = 0; begin < rows; begin += tile_rows) {
    const Range tile{begin, std::min(begin + tile_rows, rows)};
    const LinearShape shape{.rows = tile.size(), .in = width, .out = padded};
    const Tensor input = hidden.slice(tile);
    const Tensor logits(logits_.of(0), x.dtype(), {tile.size(), padded});
    products_.forward(logits, input, w, {}, shape);
    with_element_type(logits.dtype(), [&]<class Element>(Element) {
      parallel_ranges(threads_, tile.size(), 1, [&](Range part, int) {
        for (int64_t row = part.begin; row < part.end; ++row) {
          const int64_t target = targets.data<int32_t>()[tile.begin + row];
          expects(target >= 0 && target < vocabulary);
          Element* const of_row = logits.data<Element>() + row * padded;
          losses_[static_cast<size_t>(tile.begin + row)] =
              dx ? cross_entropy_gradient(of_row, vocabulary, padded, target, scale)
                 : cross_entropy(of_row, vocabulary, target);
        }
      });
    });
    if (!dx) continue;
    products_.backward_input(d_hidden.slice(tile), logits, w, shape);
    products_.backward_weight(dw, {}, logits, input, shape, begin == 0 ? write : Write::accumulate);
  }
  for (double loss : losses_) *loss_sum.data<double>() += loss;
}

}  // namespace gpt
