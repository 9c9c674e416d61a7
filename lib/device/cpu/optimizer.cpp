#include "device/cpu/adamw_elements.hpp"
#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/parallel.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

constexpr int64_t norm_block = 1024;

double& scalar(const Tensor& scalars, StepScalar which) {
  return scalars.data<double>()[static_cast<int>(which)];
}

}  // namespace

void CpuOps::add(Tensor sum, Tensor x, Queue&) {
  require_f32("add", {sum, x});
  expects(sum.size() == x.size());
  parallel_ranges(threads_, sum.size(), elementwise_grain, [&](Range range, int) {
    add_to(sum.data<float>() + range.begin, x.data<float>() + range.begin, range.size());
  });
}

void CpuOps::sum_in_order(Tensor sum, Tensor terms, Queue&) {
  expects(sum.size() == 1);
  double total = 0.0;
  for (int64_t i = 0; i < terms.size(); ++i) total += terms.data<double>()[i];
  *sum.data<double>() = total;
}

void CpuOps::square_sums(Tensor sums, Tensor g, Queue&) {
  require_f32("square_sums", {g});
  expects(sums.size() == ceil_div(g.size(), norm_block));
  parallel_ranges(threads_, g.size(), 4 * norm_block, [&](Range range, int) {
    for (int64_t i = range.begin; i < range.end; i += norm_block)
      sums.data<double>()[i / norm_block] =
          sum_of_squares(g.data<float>() + i, std::min(norm_block, range.end - i));
  });
}

void CpuOps::clip_scale(Tensor scalars, Tensor sums, const StepLimits& limits, Queue&) {
  expects(scalars.size() == static_cast<int64_t>(StepScalar::count));
  double sum = 0.0;
  for (int64_t i = 0; i < sums.size(); ++i) sum += sums.data<double>()[i];
  const double norm = std::sqrt(sum), loss = scalar(scalars, StepScalar::loss_sum);
  scalar(scalars, StepScalar::grad_norm) = norm;
  scalar(scalars, StepScalar::clip_scale) =
      limits.clip == 0.0 ? 1.0 : std::min(1.0, limits.clip / (norm + 1e-6));
  const bool accepted =
      std::isfinite(norm) && std::isfinite(loss) && norm <= limits.grad_norm && loss <= limits.loss_sum;
  scalar(scalars, StepScalar::accepted) = accepted ? 1.0 : 0.0;
}

void CpuOps::adamw(Tensor p, Tensor half, Tensor m, Tensor v, Tensor g, Tensor scalars, const AdamWStep& step,
                   Queue&) {
  require_f32("adamw", {p, m, v, g});
  expects(m.size() == p.size() && v.size() == p.size() && g.size() == p.size());
  expects((!half || half.size() == p.size()) && step.step >= 1);
  if (scalar(scalars, StepScalar::accepted) == 0.0) return;
  const float clip_scale = static_cast<float>(scalar(scalars, StepScalar::clip_scale));
  const AdamWFactors factors = adamw_factors(step);
  parallel_ranges(threads_, p.size(), elementwise_grain, [&](Range range, int) {
    const AdamWArrays arrays{.p = p.data<float>() + range.begin,
                             .half = half ? half.data<bfloat16>() + range.begin : nullptr,
                             .m = m.data<float>() + range.begin,
                             .v = v.data<float>() + range.begin,
                             .g = g.data<float>() + range.begin};
    adamw_elements(arrays, range.size(), clip_scale, factors, step.rounding.from(range.begin));
  });
}

}  // namespace gpt
