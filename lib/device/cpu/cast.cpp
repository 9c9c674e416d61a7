#include "device/cpu/cast.hpp"

#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/parallel.hpp"

namespace gpt {

void convert(Tensor dst, Tensor src, int threads) {
  expects(dst.size() == src.size());
  const bool rounds = src.dtype() == DType::f32 && dst.dtype() == DType::bf16;
  expects(rounds || (src.dtype() == DType::bf16 && dst.dtype() == DType::f32));
  parallel_ranges(threads, dst.size(), elementwise_grain, [&](Range range, int) {
    if (rounds)
      round_to_bfloat16(dst.data<bfloat16>() + range.begin, src.data<float>() + range.begin, range.size());
    else
      widen_bfloat16(dst.data<float>() + range.begin, src.data<bfloat16>() + range.begin, range.size());
  });
}

void CpuOps::cast(Tensor dst, Tensor src, Queue&) { convert(dst, src, threads_); }

void CpuOps::round(Tensor half, Tensor p, const WeightRounding& rounding, Queue&) {
  if (!rounding.stochastic) return convert(half, p, threads_);
  expects(half.size() == p.size());
  parallel_ranges(threads_, p.size(), elementwise_grain, [&](Range range, int) {
    round_stochastically(half.data<bfloat16>() + range.begin, p.data<float>() + range.begin, range.size(),
                         rounding.from(range.begin));
  });
}

}  // namespace gpt
