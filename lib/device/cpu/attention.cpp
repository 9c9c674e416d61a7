#include "device/cpu/attention_heads.hpp"
#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/parallel.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

AttentionShape shape_of(const Tensor& qkv, int64_t heads, const Dropout& dropout) {
  const int64_t positions = qkv.dim(1);
  const int64_t width = qkv.columns() / 3;
  expects(qkv.rank() == 3 && qkv.columns() == 3 * width && heads >= 1 && width % heads == 0);
  // A dropout counter has 32 bits for element/4.
  expects(dropout.rate == 0.0F || heads * positions * positions < int64_t{1} << 34);
  return {
      .positions = positions, .heads = heads, .head_size = width / heads, .dropout = plan_dropout(dropout)};
}

/// work(Element()) with the C++ type of activations of that dtype.
template <class Work>
void with_element_type(DType dtype, const Work& work) {
  if (dtype == DType::bf16)
    work(bfloat16());
  else
    work(float());
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
  const int64_t width = y.columns();
  const int64_t count = y.rows();
  const int64_t head_size = width / heads;
  expects(qkv.size() == 3 * y.size() && keys.columns() == width && values.columns() == width);
  expects(position >= 0 && position + count <= keys.rows() && width % heads == 0);
  scratch_.reserve(position + count);
  with_element_type(qkv.dtype(), [&]<class Element>(Element) {
    const Element* fresh = qkv.data<Element>();
    for (int64_t i = 0; i < count; ++i) {
      const Element* row = fresh + i * 3 * width;
      std::copy_n(row + width, width, keys.data<Element>() + (position + i) * width);
      std::copy_n(row + 2 * width, width, values.data<Element>() + (position + i) * width);
    }
    parallel_ranges(threads_, count * heads, 1, [&](Range range, int thread) {
      for (int64_t item = range.begin; item < range.end; ++item) {
        const int64_t i = item / heads;
        const int64_t column = item % heads * head_size;
        const AttentionSingle<Element> single{.y = y.data<Element>() + i * width + column,
                                              .q = fresh + i * 3 * width + column,
                                              .keys = keys.data<Element>() + column,
                                              .values = values.data<Element>() + column,
                                              .count = position + i + 1,
                                              .stride = width,
                                              .head_size = head_size,
                                              .scale = 1.0F / std::sqrt(static_cast<float>(head_size))};
        attend(single, scratch_.of(thread));
      }
    });
  });
}

}  // namespace gpt
