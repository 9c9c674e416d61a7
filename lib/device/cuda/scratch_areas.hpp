#pragma once

#include "base/integers.hpp"
#include "device/cuda/head_shape.hpp"
#include "device/dtype.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// What operations take of a queue's scratch: where each area begins, and how much it is in all. Known
/// without a GPU, so that memory can be planned before anything is allocated.
namespace gpt {

/// Divides one piece of scratch memory: areas are named first, and have addresses once it is there.
class ScratchAreas {
public:
  /// Where an area of that size begins, from the start of the whole.
  int64_t add(int64_t bytes) {
    const int64_t begin = total_;
    total_ += round_up(bytes, alignment);
    return begin;
  }
  int64_t total() const { return total_; }

private:
  static constexpr int64_t alignment = 256;
  int64_t total_ = 0;
};

/// Queries whose scores are there together: the more, the larger the products, and the more of them is above
/// the diagonal.
constexpr int64_t attention_query_block = 256;

/// Heads of a batch of `all` that attention has room for at once: nearly equal groups, each of which needs no
/// more than `limit` bytes; one at least.
constexpr int64_t heads_at_once(int64_t all, int64_t bytes_a_head, int64_t limit) {
  const int64_t most = std::clamp(limit / bytes_a_head, int64_t{1}, all);
  return ceil_div(all, ceil_div(all, most));
}

struct AttentionAreas {
  int64_t block;    ///< queries at once
  int64_t heads;    ///< at once
  int64_t qkv;      ///< (3,heads,T,D)
  int64_t y;        ///< (heads,T,D)
  int64_t scores;   ///< (heads,block,T) f32
  int64_t weights;  ///< (heads,block,T)
  int64_t total;

  AttentionAreas(const HeadShape& shape, int64_t all, DType type, int64_t limit)
      : block(std::min(attention_query_block, shape.positions)) {
    const int64_t apart = shape.elements() * size_of(type), slab = block * shape.positions;
    const int64_t bytes_of_scores = slab * size_of(DType::f32), bytes_of_weights = slab * size_of(type);
    heads = heads_at_once(all, 4 * apart + bytes_of_scores + bytes_of_weights, limit);
    ScratchAreas areas;
    qkv = areas.add(3 * heads * apart);
    y = areas.add(heads * apart);
    scores = areas.add(heads * bytes_of_scores);
    weights = areas.add(heads * bytes_of_weights);
    total = areas.total();
  }
};

struct AttentionBackwardAreas {
  int64_t block;      ///< queries at once
  int64_t heads;      ///< at once
  int64_t qkv;        ///< (3,heads,T,D)
  int64_t dy;         ///< (heads,T,D)
  int64_t dqkv;       ///< (3,heads,T,D)
  int64_t scores;     ///< (heads,block,T) f32
  int64_t d_weights;  ///< (heads,block,T) f32
  int64_t weights;    ///< (heads,T,T)
  int64_t d_scores;   ///< (heads,T,T)
  int64_t total;

  AttentionBackwardAreas(const HeadShape& shape, int64_t all, DType type, int64_t limit)
      : block(std::min(attention_query_block, shape.positions)) {
    const int64_t apart = shape.elements() * size_of(type);
    const int64_t slab = block * shape.positions * size_of(DType::f32);
    const int64_t square = shape.positions * shape.positions * size_of(type);
    heads = heads_at_once(all, 7 * apart + 2 * slab + 2 * square, limit);
    ScratchAreas areas;
    qkv = areas.add(3 * heads * apart);
    dy = areas.add(heads * apart);
    dqkv = areas.add(3 * heads * apart);
    scores = areas.add(heads * slab);
    d_weights = areas.add(heads * slab);
    weights = areas.add(heads * square);
    d_scores = areas.add(heads * square);
    total = areas.total();
  }
};

/// The most that cuDNN's attention may take: a pass that wants more is computed by our own kernels. Its
/// deterministic backward keeps the gradients of all weights in bf16, in tiles of up to 128 by 128, and sums
/// of rows; or the gradient of q in f32 instead (cudnn-frontend, CompositeSDPABackwardNode). A margin is for
/// what versions keep besides.
constexpr int64_t cudnn_attention_bytes(const HeadShape& shape, int64_t sequences) {
  constexpr int64_t tile = 128, margin = int64_t{16} << 20;
  const int64_t side = round_up(shape.positions, tile);
  const int64_t weights = side * side * size_of(DType::bf16);
  const int64_t rows = side * (1 + shape.head_size) * size_of(DType::f32);
  return sequences * shape.heads * (weights + rows) + margin;
}

struct ClassifierAreas {
  int64_t logits;  ///< (tile_rows,padded)
  int64_t losses;  ///< (rows) f64
  int64_t total;

  ClassifierAreas(int64_t rows, int64_t tile_rows, int64_t padded, DType type) {
    ScratchAreas areas;
    logits = areas.add(tile_rows * padded * size_of(type));
    losses = areas.add(rows * size_of(DType::f64));
    total = areas.total();
  }
};

/// Rows of one token are summed by pieces, at most one in each window of so many rows.
constexpr int64_t token_window = 64;

/// Digits by which tokens are sorted, and rows that a block sorts.
constexpr int64_t token_digits = 256;

struct TokenOrderAreas {
  int64_t first_rows, first_tokens, second_rows, second_tokens;  ///< (rows) i32
  int64_t counts;                                                ///< (digits,blocks) i32
  int64_t total;

  explicit TokenOrderAreas(int64_t rows) {
    const int64_t word = size_of(DType::i32);
    ScratchAreas areas;
    first_rows = areas.add(rows * word);
    first_tokens = areas.add(rows * word);
    second_rows = areas.add(rows * word);
    second_tokens = areas.add(rows * word);
    counts = areas.add(token_digits * ceil_div(rows, token_digits) * word);
    total = areas.total();
  }
};

struct EmbeddingAreas {
  int64_t heads;  ///< (windows,C) f32
  int64_t order;
  int64_t total;

  EmbeddingAreas(int64_t rows, int64_t width) {
    ScratchAreas areas;
    heads = areas.add(ceil_div(rows, token_window) * width * size_of(DType::f32));
    order = areas.add(TokenOrderAreas(rows).total);
    total = areas.total();
  }
};

/// Rows whose parameter gradients a block of the norm's backward adds up. Fixed, so that sums are.
constexpr int64_t norm_rows_a_block = 64;

/// (blocks,2,C) f32
constexpr int64_t norm_partial_bytes(int64_t rows, int64_t width) {
  return ceil_div(rows, norm_rows_a_block) * 2 * width * size_of(DType::f32);
}

/// Rows of a block where columns are summed over many rows.
constexpr int64_t sum_rows_block = 256;

/// (blocks,columns) f32
constexpr int64_t column_sum_bytes(int64_t rows, int64_t columns) {
  return ceil_div(rows, sum_rows_block) * columns * size_of(DType::f32);
}

/// cuBLASLt's, of each queue that multiplies.
constexpr int64_t cublas_workspace_bytes = int64_t{32} << 20;

}  // namespace gpt
