// Products of small matrices that stay in cache: the inner loops of attention.
#if defined(GPT_DEVICE_CPU_TILE_PRODUCT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_TILE_PRODUCT_INL_HPP
#undef GPT_DEVICE_CPU_TILE_PRODUCT_INL_HPP
#else
#define GPT_DEVICE_CPU_TILE_PRODUCT_INL_HPP
#endif

#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// A matrix read word by word: a(i,k) = data[i·row + k·column].
struct Elements {
  const float* data;
  int64_t row;
  int64_t column;

  HWY_INLINE Elements from_row(int64_t i) const { return {data + i * row, row, column}; }
  HWY_INLINE Elements from_column(int64_t k) const { return {data + k * column, row, column}; }
};

/// c(i,j) = or += Σ over k < depth of a(i,k)·b(k,j), for kRows rows and kVectors vectors of columns. The sums
/// stay in registers.
template <class Words, int kRows, int kVectors>
HWY_INLINE void product_block(float* c, int64_t c_stride, Elements a, const float* b, int64_t b_stride,
                              int64_t depth, bool accumulate) {
  Vector sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j)
      sum[i][j] = accumulate ? load(c + i * c_stride + j * lanes) : broadcast(0.0F);
  for (int64_t k = 0; k < depth; ++k) {
    Vector right[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) right[j] = load(b + k * b_stride + j * lanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const Vector left = broadcast(a.data[i * a.row + k * a.column]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] = Words::multiply_add(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) store(sum[i][j], c + i * c_stride + j * lanes);
}

/// Rows of a block: with two vectors of columns, what 32 (AVX-512, NEON) or 16 registers (AVX2, SSSE3) hold.
inline constexpr int block_rows = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSSE3 ? 6 : 12;

template <class Words, int kVectors>
HWY_INLINE void product_panel(float* c, int64_t c_stride, Elements a, const float* b, int64_t b_stride,
                              int64_t rows, int64_t depth, bool accumulate) {
  int64_t i = 0;
  for (; i + block_rows <= rows; i += block_rows)
    product_block<Words, block_rows, kVectors>(c + i * c_stride, c_stride, a.from_row(i), b, b_stride, depth,
                                               accumulate);
  for (; i + 4 <= rows; i += 4)
    product_block<Words, 4, kVectors>(c + i * c_stride, c_stride, a.from_row(i), b, b_stride, depth,
                                      accumulate);
  for (; i < rows; ++i)
    product_block<Words, 1, kVectors>(c + i * c_stride, c_stride, a.from_row(i), b, b_stride, depth,
                                      accumulate);
}

/// c = or += a·b.  c (rows,columns), b (depth,columns); columns is a multiple of the vector length. What a
/// word of a and b holds, and how two of them are multiplied, is a matter of Words.
template <class Words>
HWY_INLINE void tile_product(float* c, int64_t c_stride, Elements a, const float* b, int64_t b_stride,
                             int64_t rows, int64_t columns, int64_t depth, bool accumulate) {
  int64_t j = 0;
  for (; j + 2 * lanes <= columns; j += 2 * lanes)
    product_panel<Words, 2>(c + j, c_stride, a, b + j, b_stride, rows, depth, accumulate);
  for (; j < columns; j += lanes)
    product_panel<Words, 1>(c + j, c_stride, a, b + j, b_stride, rows, depth, accumulate);
}

/// out(j,i) = in(i,j).  rows and columns are multiples of 4
HWY_INLINE void transpose(float* out, int64_t out_stride, const float* in, int64_t in_stride, int64_t rows,
                          int64_t columns) {
  const hn::CappedTag<float, 4> four;
  for (int64_t i = 0; i < rows; i += 4)
    for (int64_t j = 0; j < columns; j += 4) {
      const float* corner = in + i * in_stride + j;
      const auto row0 = hn::LoadU(four, corner);
      const auto row1 = hn::LoadU(four, corner + in_stride);
      const auto row2 = hn::LoadU(four, corner + 2 * in_stride);
      const auto row3 = hn::LoadU(four, corner + 3 * in_stride);
      const auto even_low = hn::InterleaveLower(four, row0, row2);
      const auto odd_low = hn::InterleaveLower(four, row1, row3);
      const auto even_high = hn::InterleaveUpper(four, row0, row2);
      const auto odd_high = hn::InterleaveUpper(four, row1, row3);
      float* target = out + j * out_stride + i;
      hn::StoreU(hn::InterleaveLower(four, even_low, odd_low), four, target);
      hn::StoreU(hn::InterleaveUpper(four, even_low, odd_low), four, target + out_stride);
      hn::StoreU(hn::InterleaveLower(four, even_high, odd_high), four, target + 2 * out_stride);
      hn::StoreU(hn::InterleaveUpper(four, even_high, odd_high), four, target + 3 * out_stride);
    }
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
