#include "device/cpu_peaks.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/cpu_peaks.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "base/error.hpp"
#include "device/buffer.hpp"
#include "device/cpu/bfloat16_peak.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/peak_rate.hpp"
#include "device/cpu/simd-inl.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Sums that do not wait for each other: at least the pipes times the latency of today's cores, which is 8 to
/// 16, and as many as stay in 32 (AVX-512, NEON) or 16 registers (AVX2, SSSE3).
inline constexpr int chains = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSSE3 ? 12 : 24;

/// @return floating-point operations done; `sink` gets what keeps the compiler from leaving them out
double multiply_adds_simd(int64_t rounds, float* sink) {
  Vector sums[chains];
#pragma GCC unroll 24
  for (int i = 0; i < chains; ++i) sums[i] = broadcast(static_cast<float>(i));
  const Vector factor = broadcast(0.999F), term = broadcast(1e-3F);  // towards 1, away from denormals
  for (int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 24
    for (int i = 0; i < chains; ++i) sums[i] = hn::MulAdd(sums[i], factor, term);
#pragma GCC unroll 24
  for (int i = 1; i < chains; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = sum_lanes(sums[0]);
  return 2.0 * chains * static_cast<double>(lanes) * static_cast<double>(rounds);
}

/// a, b and c += d.  size is a multiple of every vector's length
void add_to_three_simd(float* a, float* b, float* c, const float* d, int64_t size) {
  for (int64_t i = 0; i < size; i += lanes) {
    const Vector term = load(d + i);
    // All loads first: a store may keep a load of the same page offset waiting.
    const Vector a_sum = hn::Add(load(a + i), term), b_sum = hn::Add(load(b + i), term),
                 c_sum = hn::Add(load(c + i), term);
    store(a_sum, a + i);
    store(b_sum, b + i);
    store(c_sum, c + i);
  }
}

/// size is a multiple of every vector's length, four times
float sum_simd(const float* a, int64_t size) {
  Vector sums[4];
  for (Vector& sum : sums) sum = broadcast(0.0F);
  for (int64_t i = 0; i < size; i += 4 * lanes)
    for (int64_t k = 0; k < 4; ++k) sums[k] = hn::Add(sums[k], load(a + i + k * lanes));
  return sum_lanes(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(multiply_adds_simd);
HWY_EXPORT(add_to_three_simd);
HWY_EXPORT(sum_simd);

namespace {

double multiply_adds() {
  constexpr int64_t rounds = 60'000;
  float sink = 0.0F;
  const double done = HWY_DYNAMIC_DISPATCH(multiply_adds_simd)(rounds, &sink);
  return sink > 0.0F ? done : 0.0;
}

}  // namespace

double measure_peak_flops(int threads, DType operands) {
  validate(operands == DType::f32 || operands == DType::bf16, ExitCode::failed,
           "no products of {}: use f32 or bf16", name_of(operands));
  const double own = operands == DType::bf16 ? measure_bfloat16_flops(threads) : 0.0;
  return own > 0.0 ? own : best_rate_of(threads, multiply_adds);
}

double measure_read_bytes(int threads) {
  constexpr int64_t elements = int64_t{1} << 27;
  constexpr int rounds = 8;
  const auto device = make_cpu_device(threads);
  const TensorBuffer buffer(*device, DType::f32, {elements});
  const float* const a = buffer->data<float>();
  std::vector<float> sums(static_cast<size_t>(threads));
  return best_rate(rounds, [&] {
    parallel_ranges(threads, elements, elementwise_grain, [&](Range range, int thread) {
      sums[static_cast<size_t>(thread)] = HWY_DYNAMIC_DISPATCH(sum_simd)(a + range.begin, range.size());
    });
    const float sum = std::accumulate(sums.begin(), sums.end(), 0.0F);
    return sum == 0.0F ? static_cast<double>(buffer->bytes())
                       : 0.0;  // or the compiler leaves out the reading
  });
}

double measure_peak_bytes(int threads) {
  constexpr int64_t elements = int64_t{1} << 24;
  constexpr int rounds = 8;
  const auto device = make_cpu_device(threads);
  const TensorBuffer a_buffer(*device, DType::f32, {elements}), b_buffer(*device, DType::f32, {elements}),
      c_buffer(*device, DType::f32, {elements}), d_buffer(*device, DType::f32, {elements});
  float *const a = a_buffer->data<float>(), *const b = b_buffer->data<float>(),
               *const c = c_buffer->data<float>(), *const d = d_buffer->data<float>();
  const auto moved = [&](int arrays, const auto& add) {
    parallel_ranges(threads, elements, elementwise_grain,
                    [&](Range range, int) { add(range.begin, range.size()); });
    return static_cast<double>(arrays * a_buffer->bytes());
  };
  const double two_streams = best_rate(rounds, [&] {
    return moved(3, [&](int64_t begin, int64_t size) { add_to(a + begin, d + begin, size); });
  });
  const double four_streams = best_rate(rounds, [&] {
    return moved(7, [&](int64_t begin, int64_t size) {
      HWY_DYNAMIC_DISPATCH(add_to_three_simd)(a + begin, b + begin, c + begin, d + begin, size);
    });
  });
  return std::max(two_streams, four_streams);
}

}  // namespace gpt
#endif
