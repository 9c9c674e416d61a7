// Attention's products of bfloat16 by the dot products of pairs that newer AVX-512 processors have.
#if defined(GPT_DEVICE_CPU_ATTENTION_PAIRS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_ATTENTION_PAIRS_INL_HPP
#undef GPT_DEVICE_CPU_ATTENTION_PAIRS_INL_HPP
#else
#define GPT_DEVICE_CPU_ATTENTION_PAIRS_INL_HPP
#endif

#include "device/cpu/attention_tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

// Highway numbers better sets of x86 lower: AVX-512 and beyond.
#if HWY_TARGET <= HWY_AVX3

/// Words of two bfloat16, neighbours along the axis that a product sums over. Weights are rounded to
/// bfloat16; products and sums are f32.
///
/// The product stands in assembly for the reason of ProcessorRounding.
struct PairWords {
  static constexpr int64_t terms = 2;
  static constexpr int64_t grain = terms;
  /// A scaled query would be rounded once more: scores are scaled instead.
  static constexpr bool scales_queries = false;
  using Rounding = ProcessorRounding;
  using Weights = hn::Vec<ProcessorRounding::HalfTag>;
  static constexpr bool transposes_sums_over_keys = false;
  using Scope = NoScope;

  static HWY_INLINE Weights rounded(Vector weights) { return Rounding::halves_of(weights); }

  static HWY_INLINE Vector multiply_add(Vector left, Vector right, Vector sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(left.raw), "v"(right.raw));
    return sum;
  }

  /// Pairs along a row: (rows, padded/2) words.
  static HWY_INLINE void pack_rows(float* out, const bfloat16* in, int64_t stride, int64_t rows,
                                   const AttentionShape& shape, float /*scale*/) {
    const int64_t words = shape.padded() / terms;
    const auto bytes = static_cast<size_t>(shape.head_size) * sizeof(bfloat16);
    const size_t row_bytes = static_cast<size_t>(words) * sizeof(float);
    for (int64_t i = 0; i < rows; ++i) {
      auto* to = reinterpret_cast<std::byte*>(out + i * words);
      std::memcpy(to, in + i * stride, bytes);
      std::memset(to + bytes, 0, row_bytes - bytes);
    }
  }

  /// Pairs of one row and the next: (ceil(rows/2), padded) words.
  static HWY_INLINE void pack_summed_rows(float* out, const bfloat16* in, int64_t stride, int64_t rows,
                                          const AttentionShape& shape) {
    const int64_t padded = shape.padded();
    for (int64_t i = 0; i < rows; i += terms) {
      const bfloat16* lower = in + i * stride;
      const bfloat16* upper = lower + stride;
      const bool both = i + 1 < rows;
      float* to = out + i / terms * padded;
      for_vectors(
          0, shape.head_size,
          [&](int64_t d) HWY_ATTR {
            store(interleave(load(lower + d), both ? load(upper + d) : broadcast(0.0F)), to + d);
          },
          [&](int64_t d, int64_t n) HWY_ATTR {
            store(interleave(load_n(lower + d, n), both ? load_n(upper + d, n) : broadcast(0.0F)), to + d);
          });
    }
  }

  static HWY_INLINE void pack_keys_to_sum(float* out, float* /*spare*/, const bfloat16* in, int64_t stride,
                                          const AttentionShape& shape) {
    pack_summed_rows(out, in, stride, shape.positions, shape);
  }

  static HWY_INLINE void store_by_key(const Weights (&weights)[terms], float* place) {
    const hn::RebindToUnsigned<FloatTag> words;
    const auto lower = hn::PromoteTo(words, weights[0]);
    const auto upper = hn::PromoteTo(words, weights[1]);
    store(hn::BitCast(float_tag, hn::Or(lower, hn::ShiftLeft<16>(upper))), place);
  }

  static HWY_INLINE void store_by_query(Weights weights, float* row, int64_t q) {
    hn::StoreU(weights, ProcessorRounding::HalfTag(), reinterpret_cast<uint16_t*>(row) + q);
  }

private:
  /// Of values that are bfloat16 already.
  static HWY_INLINE Vector interleave(Vector lower, Vector upper) {
    const hn::RebindToUnsigned<FloatTag> words;
    return hn::BitCast(float_tag,
                       hn::Or(hn::ShiftRight<16>(hn::BitCast(words, lower)), hn::BitCast(words, upper)));
  }
};

#endif

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
