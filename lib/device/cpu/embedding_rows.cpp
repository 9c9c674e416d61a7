#include "device/cpu/embedding_rows.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/embedding_rows.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/dropout-inl.hpp"
#include "device/cpu/elements-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

void add_rows_f32(float* out, const float* a, const float* b, int64_t width) {
  add_elements(out, a, b, width);
}
void add_rows_bf16(float* out, const bfloat16* a, const bfloat16* b, int64_t width) {
  add_elements(out, a, b, width);
}

void drop_elements_simd(float* row, const DropoutPlan& plan, int64_t index, int64_t first, int64_t width,
                        float* factors) {
  const float* factor = dropout_factors(plan, index, first, width, factors);
  for_vectors(
      0, width, [&](int64_t i) HWY_ATTR { store(hn::Mul(load(row + i), load(factor + i)), row + i); },
      [&](int64_t i, int64_t n)
          HWY_ATTR { store_n(hn::Mul(load_n(row + i, n), load_n(factor + i, n)), row + i, n); });
}

void scatter_rows_simd(float* table, const float* rows, const int32_t* tokens, int64_t count, int64_t width,
                       Range columns) {
  for (int64_t r = 0; r < count; ++r) {
    float* out = table + tokens[r] * width + columns.begin;
    add_elements(out, out, rows + r * width + columns.begin, columns.size());
  }
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(add_rows_f32);
HWY_EXPORT(add_rows_bf16);
HWY_EXPORT(drop_elements_simd);
HWY_EXPORT(scatter_rows_simd);

void add_rows(float* out, const float* a, const float* b, int64_t width) {
  HWY_DYNAMIC_DISPATCH(add_rows_f32)(out, a, b, width);
}
void add_rows(float* out, const bfloat16* a, const bfloat16* b, int64_t width) {
  HWY_DYNAMIC_DISPATCH(add_rows_bf16)(out, a, b, width);
}

void drop_elements(float* row, const DropoutPlan& plan, int64_t index, int64_t first, int64_t width,
                   float* factors) {
  HWY_DYNAMIC_DISPATCH(drop_elements_simd)(row, plan, index, first, width, factors);
}

void scatter_rows(float* table, const float* rows, const int32_t* tokens, int64_t count, int64_t width,
                  Range columns) {
  HWY_DYNAMIC_DISPATCH(scatter_rows_simd)(table, rows, tokens, count, width, columns);
}

}  // namespace gpt
#endif
