#pragma once

#include "bench/operator_times.hpp"

namespace gpt {

/// What a machine can do at best.
struct Peaks {
  double f32_flops = 0.0;   ///< floating-point operations a second on operands of f32
  double bf16_flops = 0.0;  ///< and of bf16
  double bytes = 0.0;       ///< of memory, a second
  std::string of = "these threads";

  double flops(DType operands) const { return operands == DType::bf16 ? bf16_flops : f32_flops; }
};

/// Of `threads` threads of this CPU.
Peaks measure_peaks(int threads);
/// The best of both: what disturbed one measurement need not have disturbed the other.
Peaks best_of(const Peaks& a, const Peaks& b);

/// Least seconds of an operation: its products at the peak, or its operands' bytes if it has none. These may
/// come faster from caches than from memory.
double bound_of(const Work& work, const Peaks& peaks);

/// Least seconds of a step, whatever the order of its work.
struct StepBound {
  double product_flops = 0.0;
  double product_seconds = 0.0;  ///< of all products at the peak
  double optimizer_bytes = 0.0;
  double optimizer_seconds = 0.0;  ///< of these bytes

  double seconds() const { return product_seconds + optimizer_seconds; }
};
StepBound bound_of_step(const StepProfile& profile, const Peaks& peaks);

}  // namespace gpt
