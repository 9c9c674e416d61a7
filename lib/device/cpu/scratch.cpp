#include "device/cpu/attention_heads.hpp"
#include "device/cpu/matrix_products.hpp"
#include "device/cpu/norm_rows.hpp"
#include "device/cpu_scratch.hpp"
#include "device/row_tiles.hpp"

#include <algorithm>

namespace gpt {
namespace {

/// Floats that MatrixProducts takes at most: gradients that are added to others, operands widened from bf16.
int64_t product_floats(const ScratchShape& shape, int64_t rows, int64_t tile_rows) {
  const int64_t width = shape.width, classes = shape.rows_of_classifier;
  const bool adds_tiles = tile_rows < rows;
  const int64_t outputs = shape.accumulates ? std::max(classes, 4 * width) : adds_tiles ? classes : 0;
  const int64_t added = outputs * (width + 1);  // weights and their biases
  if (shape.type != DType::bf16 || !widens_bfloat16()) return added;
  const int64_t head = tile_rows * (width + classes), mlp = rows * 5 * width;
  return std::max(added + std::max(head, mlp), std::max(head + classes * width, mlp + 4 * width * width));
}

/// Floats that oneDNN 2.6 takes by itself where it is more than little: sums in f32 of what becomes bf16.
int64_t library_floats(const ScratchShape& shape, int64_t rows) {
  return shape.type == DType::bf16 && !widens_bfloat16() ? rows * shape.width : 0;
}

}  // namespace

int64_t cpu_scratch_bytes(const ScratchShape& shape) {
  const int64_t rows = shape.sequences * shape.context;
  const int64_t tile_rows = classifier_tile_rows(rows);
  const AttentionShape attention{.positions = shape.context,
                                 .heads = shape.heads,
                                 .head_size = shape.width / shape.heads,
                                 .dropout = {}};
  const int64_t floats =
      shape.threads * std::max(attention_forward_scratch(attention), attention_backward_scratch(attention)) +
      ceil_div(rows, norm_row_block) * 2 * round_up(shape.width, 16) +
      product_floats(shape, rows, tile_rows) + library_floats(shape, rows);
  return floats * size_of(DType::f32) + tile_rows * shape.rows_of_classifier * size_of(shape.type) +
         rows * size_of(DType::f64);
}

}  // namespace gpt
