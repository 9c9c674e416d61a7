#include "bench/operator_bounds.hpp"

#include "device/cpu_peaks.hpp"

#include <algorithm>

namespace gpt {

Peaks measure_peaks(int threads) {
  return {.f32_flops = measure_peak_flops(threads, DType::f32),
          .bf16_flops = measure_peak_flops(threads, DType::bf16),
          .bytes = measure_peak_bytes(threads)};
}

Peaks best_of(const Peaks& a, const Peaks& b) {
  return {.f32_flops = std::max(a.f32_flops, b.f32_flops),
          .bf16_flops = std::max(a.bf16_flops, b.bf16_flops),
          .bytes = std::max(a.bytes, b.bytes),
          .of = b.of};
}

double bound_of(const Work& work, const Peaks& peaks) {
  return work.limit == Limit::arithmetic ? work.flops / peaks.flops(work.operands) : work.bytes / peaks.bytes;
}

StepBound bound_of_step(const StepProfile& profile, const Peaks& peaks) {
  StepBound bound;
  for (const OperatorTime& time : profile.operators) {
    const double seconds = bound_of(time.work, peaks);
    if (time.work.limit == Limit::arithmetic) {
      bound.product_flops += time.work.flops;
      bound.product_seconds += seconds;
    } else if (time.work.limit == Limit::memory) {
      bound.optimizer_bytes += time.work.bytes;
      bound.optimizer_seconds += seconds;
    }
  }
  return bound;
}

}  // namespace gpt
