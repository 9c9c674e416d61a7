#include "device/softmax_weights.hpp"

#include <algorithm>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/softmax_weights.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/elements-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Sums of more terms than a block has would lose digits in f32.
inline constexpr int64_t sum_block = 1024;

double softmax_weights_simd(float* y, const float* x, int64_t size, float factor) {
  const Vector largest = broadcast(largest_element(x, size)), factors = broadcast(factor);
  const auto exponent = [&](Vector v) HWY_ATTR { return hn::Mul(hn::Sub(v, largest), factors); };
  double total = 0.0;
  for (int64_t begin = 0; begin < size; begin += sum_block) {
    const int64_t end = std::min(begin + sum_block, size);
    const Vector sum = exponentiate(y + begin, x + begin, end - begin, exponent);
    for (int64_t i = end - (end - begin) % lanes; i < end; ++i) total += static_cast<double>(y[i]);
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
