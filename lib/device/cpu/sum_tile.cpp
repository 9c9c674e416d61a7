#include "device/cpu/sum_tile.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/sum_tile.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/bfloat16-inl.hpp"
#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// tile = or += convert(i), a vector at a time; convert_one serves the rest.
template <class Convert, class ConvertOne>
HWY_INLINE void read_vectors(float* tile, int64_t n, TileWrite write, const Convert& convert,
                             const ConvertOne& convert_one) {
  const auto rest = [&](int64_t begin, int64_t count) HWY_ATTR {
    for (int64_t i = begin; i < begin + count; ++i)
      tile[i] = write == TileWrite::add ? tile[i] + convert_one(i) : convert_one(i);
  };
  if (write == TileWrite::add)
    for_vectors(
        0, n, [&](int64_t i) HWY_ATTR { store(hn::Add(load(tile + i), convert(i)), tile + i); }, rest);
  else
    for_vectors(
        0, n, [&](int64_t i) HWY_ATTR { store(convert(i), tile + i); }, rest);
}

void read_float_simd(float* tile, const float* source, int64_t n, TileWrite write, TileRounding rounding) {
  if (rounding == TileRounding::none)
    read_vectors(
        tile, n, write, [&](int64_t i) HWY_ATTR { return load(source + i); },
        [&](int64_t i) { return source[i]; });
  else
    read_vectors(
        tile, n, write, [&](int64_t i) HWY_ATTR { return round_to_bfloat16(load(source + i)); },
        [&](int64_t i) { return static_cast<float>(bfloat16(source[i])); });
}

void read_half_simd(float* tile, const bfloat16* source, int64_t n, TileWrite write) {
  read_vectors(
      tile, n, write, [&](int64_t i) HWY_ATTR { return load(source + i); },
      [&](int64_t i) { return static_cast<float>(source[i]); });
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(read_float_simd);
HWY_EXPORT(read_half_simd);

void read_tile(float* tile, const float* source, int64_t n, TileWrite write, TileRounding rounding) {
  HWY_DYNAMIC_DISPATCH(read_float_simd)(tile, source, n, write, rounding);
}

void read_tile(float* tile, const bfloat16* source, int64_t n, TileWrite write) {
  HWY_DYNAMIC_DISPATCH(read_half_simd)(tile, source, n, write);
}

void write_tile(float* out, const float* tile, int64_t n, TileRounding rounding) {
  HWY_DYNAMIC_DISPATCH(read_float_simd)(out, tile, n, TileWrite::assign, rounding);
}

}  // namespace gpt
#endif
