#include "device/cpu/row_products.hpp"

#include "device/cpu/prefetch.hpp"

#include <algorithm>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/row_products.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/bfloat16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Rows of x that one pass over a row of W serves; further ones find it in the nearest cache.
inline constexpr int64_t rows_of_pass = 4;

/// y[r] = x[r]·w for `rows` rows of x, `in` apart.
template <int64_t rows, class Weight>
HWY_INLINE void dot_rows(float* y, const float* x, const Weight* w, int64_t in) {
  Vector even[rows], odd[rows];  // two sums each, or one addition would wait for the other
  for (int64_t r = 0; r < rows; ++r) even[r] = odd[r] = broadcast(0.0F);
  int64_t i = 0;
  for (; i + 2 * lanes <= in; i += 2 * lanes) {
    prefetch_ahead(w + i, 2 * lanes);
    const Vector first = load(w + i), second = load(w + i + lanes);
    for (int64_t r = 0; r < rows; ++r) {
      even[r] = hn::MulAdd(first, load(x + r * in + i), even[r]);
      odd[r] = hn::MulAdd(second, load(x + r * in + i + lanes), odd[r]);
    }
  }
  for_vectors(
      i, in,
      [&](int64_t k) HWY_ATTR {
        const Vector last = load(w + k);
        for (int64_t r = 0; r < rows; ++r) even[r] = hn::MulAdd(last, load(x + r * in + k), even[r]);
      },
      [&](int64_t k, int64_t n) HWY_ATTR {
        const Vector last = load_n(w + k, n);
        for (int64_t r = 0; r < rows; ++r) odd[r] = hn::MulAdd(last, load_n(x + r * in + k, n), odd[r]);
      });
  for (int64_t r = 0; r < rows; ++r) y[r] = sum_lanes(hn::Add(even[r], odd[r]));
}

template <class Weight>
HWY_INLINE void multiply_outputs(const RowProducts<Weight>& p, Range outputs) {
  for (int64_t o = outputs.begin; o < outputs.end; ++o) {
    const float bias = p.b == nullptr ? 0.0F : p.b[o];
    const Weight* w = p.w + o * p.in;
    for (int64_t row = 0; row < p.rows; row += rows_of_pass) {
      const float* x = p.x + row * p.in;
      const int64_t rows = std::min(rows_of_pass, p.rows - row);
      float sums[rows_of_pass];
      if (rows == 1)
        dot_rows<1>(sums, x, w, p.in);
      else if (rows == 2)
        dot_rows<2>(sums, x, w, p.in);
      else if (rows == 3)
        dot_rows<3>(sums, x, w, p.in);
      else
        dot_rows<rows_of_pass>(sums, x, w, p.in);
      for (int64_t r = 0; r < rows; ++r) p.y[(row + r) * p.out + o] = sums[r] + bias;
    }
  }
}

void multiply_f32(const RowProducts<float>& products, Range outputs) { multiply_outputs(products, outputs); }

void multiply_bf16(const RowProducts<bfloat16>& products, Range outputs) {
  multiply_outputs(products, outputs);
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_bf16);

void multiply_rows(const RowProducts<float>& products, Range outputs) {
  HWY_DYNAMIC_DISPATCH(multiply_f32)(products, outputs);
}

void multiply_rows(const RowProducts<bfloat16>& products, Range outputs) {
  HWY_DYNAMIC_DISPATCH(multiply_bf16)(products, outputs);
}

}  // namespace gpt
#endif
