#include "device/softmax_weights.hpp"

#include <algorithm>
#include <limits>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/softmax_weights.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

float largest_simd(const float* x, int64_t size) {
  Vector most = broadcast(-std::numeric_limits<float>::infinity());
  float rest = -std::numeric_limits<float>::infinity();
  for_vectors(
      0, size, [&](int64_t i) HWY_ATTR { most = hn::Max(most, load(x + i)); },
      [&](int64_t i, int64_t n) HWY_ATTR { rest = *std::max_element(x + i, x + i + n); });
  return std::max(max_lanes(most), rest);
}

/// Sums of more terms than a block has would lose digits in f32.
inline constexpr int64_t sum_block = 1024;

double softmax_weights_simd(float* y, const float* x, int64_t size, float factor) {
  const Vector largest = broadcast(largest_simd(x, size)), factors = broadcast(factor);
  double total = 0.0;
  for (int64_t begin = 0; begin < size; begin += sum_block) {
    Vector sum = broadcast(0.0F);
    for_vectors(
        begin, std::min(begin + sum_block, size),
        [&](int64_t i) HWY_ATTR {
          const Vector weight = exponential(hn::Mul(hn::Sub(load(x + i), largest), factors));
          store(weight, y + i);
          sum = hn::Add(sum, weight);
        },
        [&](int64_t i, int64_t n) HWY_ATTR {
          store_n(exponential(hn::Mul(hn::Sub(load_n(x + i, n), largest), factors)), y + i, n);
          for (int64_t k = i; k < i + n; ++k) total += static_cast<double>(y[k]);
        });
    total += static_cast<double>(sum_lanes(sum));
  }
  return total;
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(softmax_weights_simd);

double softmax_weights(float* y, const float* x, int64_t size, float factor) {
  return HWY_DYNAMIC_DISPATCH(softmax_weights_simd)(y, x, size, factor);
}

}  // namespace gpt
#endif
