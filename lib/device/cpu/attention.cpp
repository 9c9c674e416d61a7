#include "device/cpu/attention_heads.hpp"
#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/element_type.hpp"
#include "device/cpu/parallel.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

/// Keys and values of one head: rows of `head_size` that follow each other, so that a query reads them from
/// beginning to end.
template <class Element>
struct HeadCache {
  Element* keys;
  Element* values;
  int64_t head_size;

  /// @param qkv  q of this head in the first of `count` rows, `stride` apart
  void write(int64_t position, const Element* qkv, int64_t count, int64_t stride) const {
    const int64_t width = stride / 3;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (position + i) * head_size;
      std::copy_n(qkv + i * stride + width, head_size, keys + row);
      std::copy_n(qkv + i * stride + 2 * width, head_size, values + row);
    }
  }
};

AttentionShape shape_of(const Tensor& qkv, int64_t heads, const Dropout& dropout) {
  const int64_t positions = qkv.dim(1);
  const int64_t width = qkv.columns() / 3;
  expects(qkv.rank() == 3 && qkv.columns() == 3 * width && heads >= 1 && width % heads == 0);
  // A dropout counter has 32 bits for element/4.
  expects(dropout.rate == 0.0F || heads * positions * positions < int64_t{1} << 34);
  return {
      .positions = positions, .heads = heads, .head_size = width / heads, .dropout = plan_dropout(dropout)};
}

}  // namespace

void CpuOps::attention(Tensor y, Tensor log_sum, Tensor qkv, int64_t heads, const Dropout& dropout, Queue&) {
  const AttentionShape shape = shape_of(qkv, heads, dropout);
  expects(3 * y.size() == qkv.size() && log_sum.size() == qkv.rows() * heads);
  scratch_.reserve(attention_forward_scratch(shape));
  with_element_type(qkv.dtype(), [&]<class Element>(Element) {
    const AttentionForward<Element> forward{
        .y = y.data<Element>(), .log_sum = log_sum.data<float>(), .qkv = qkv.data<Element>(), .shape = shape};
    parallel_ranges(threads_, qkv.dim(0) * heads, 1,
                    [&](Range range, int thread) { attention_forward(forward, range, scratch_.of(thread)); });
  });
}

void CpuOps::attention_backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, int64_t heads,
                                const Dropout& dropout, Queue&) {
  const AttentionShape shape = shape_of(qkv, heads, dropout);
  expects(dqkv.size() == qkv.size() && 3 * y.size() == qkv.size() && dy.size() == y.size());
  scratch_.reserve(attention_backward_scratch(shape));
  with_element_type(qkv.dtype(), [&]<class Element>(Element) {
    const AttentionBackward<Element> backward{.dqkv = dqkv.data<Element>(),
                                              .dy = dy.data<Element>(),
                                              .y = y.data<Element>(),
                                              .qkv = qkv.data<Element>(),
                                              .log_sum = log_sum.data<float>(),
                                              .shape = shape};
    parallel_ranges(threads_, qkv.dim(0) * heads, 1, [&](Range range, int thread) {
      gpt::attention_backward(backward, range, scratch_.of(thread));
    });
  });
}

void CpuOps::attention_cached(Tensor y, Tensor keys, Tensor values, Tensor qkv, int64_t position,
                              int64_t heads, Queue&) {
  const AttentionShape shape = shape_of(qkv, heads, {});
  const int64_t count = shape.positions, head_size = shape.head_size, context = keys.dim(2);
  const int64_t items = qkv.dim(0) * heads;
  expects(3 * y.size() == qkv.size() && keys.size() == values.size());
  expects(keys.size() == items * context * head_size && keys.dim(1) == heads);
  expects(position >= 0 && position + count <= context);
  // A whole prompt is attention as in training; what only that has to keep goes nowhere.
  const bool is_whole = position == 0 && count > 1;
  scratch_.reserve(std::max(is_whole ? attention_forward_scratch(shape) : 0, position + count));
  if (is_whole) partials_.reserve(items * count);
  with_element_type(qkv.dtype(), [&]<class Element>(Element) {
    const AttentionForward<Element> whole{.y = y.data<Element>(),
                                          .log_sum = is_whole ? partials_.of(0) : nullptr,
                                          .qkv = qkv.data<Element>(),
                                          .shape = shape};
    const auto attend_one_by_one = [&](int64_t item, const HeadCache<Element>& cache, float* scratch) {
      const int64_t first = item / heads * count, column = item % heads * head_size;
      for (int64_t i = 0; i < count; ++i)
        attend(AttentionSingle<Element>{.y = y.data<Element>() + (first + i) * shape.width() + column,
                                        .q = qkv.data<Element>() + (first + i) * 3 * shape.width() + column,
                                        .keys = cache.keys,
                                        .values = cache.values,
                                        .count = position + i + 1,
                                        .head_size = head_size,
                                        .scale = 1.0F / std::sqrt(static_cast<float>(head_size))},
               scratch);
    };
    parallel_ranges(threads_, items, 1, [&](Range range, int thread) {
      for (int64_t item = range.begin; item < range.end; ++item) {
        const int64_t start = item * context * head_size;
        const HeadCache<Element> cache{keys.data<Element>() + start, values.data<Element>() + start,
                                       head_size};
        const int64_t row = item / heads * count * 3 * shape.width();
        cache.write(position, qkv.data<Element>() + row + item % heads * head_size, count, 3 * shape.width());
        if (!is_whole) attend_one_by_one(item, cache, scratch_.of(thread));
      }
      if (is_whole) attention_forward(whole, range, scratch_.of(thread));
    });
  });
}

}  // namespace gpt
