#include "bench/operator_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace gpt {
namespace {

double percent(double part, double whole) { return 100 * part / whole; }

void print_row(const OperatorTime& time, double step, const Peaks& peaks) {
  const bool counts_flops = time.work.limit == Limit::arithmetic;
  const double amount = counts_flops ? time.work.flops : time.work.bytes;
  const std::string rate = time.seconds > 0 ? fmt::format("{:.1f} {}", amount / time.seconds / 1e9,
                                                          counts_flops ? "GFLOP/s" : "GB/s   ")
                                            : "";
  fmt::print("  {:<38} {:>5} {:>10.3f} {:>6.1f} % {:>15} {:>6.0f} %\n", time.name, time.calls,
             time.seconds * 1e3, percent(time.seconds, step), rate,
             time.seconds > 0 ? percent(bound_of(time.work, peaks), time.seconds) : 0.0);
}

}  // namespace

void print_operators(const StepProfile& profile, const Peaks& peaks, double untimed) {
  fmt::print("\nwhere the time goes, the least time of each operation timed by itself: {:.1f} ms in all\n",
             profile.seconds() * 1e3);
  fmt::print("peaks of {}: {:.0f} GFLOP/s fp32, {:.0f} GFLOP/s bf16, {:.1f} GB/s\n", peaks.of,
             peaks.f32_flops / 1e9, peaks.bf16_flops / 1e9, peaks.bytes / 1e9);
  fmt::print("  {:<38} {:>5} {:>10} {:>8} {:>15} {:>8}\n", "operation", "calls", "ms", "share", "rate   ",
             "of peak");
  std::vector<OperatorTime> sorted = profile.operators;
  std::ranges::stable_sort(sorted, std::greater(), &OperatorTime::seconds);
  for (const OperatorTime& time : sorted) print_row(time, profile.seconds(), peaks);
  fmt::print("  {:<38} {:>5} {:>10.3f} {:>6.1f} %\n", "between operations", "", profile.between * 1e3,
             percent(profile.between, profile.seconds()));
  const StepBound bound = bound_of_step(profile, peaks);
  fmt::print(
      "bound of a step: {:.2f} ms = {:.2f} GFLOP of products {:.2f} ms + {:.3f} GB of the optimizer {:.2f} "
      "ms\n",
      bound.seconds() * 1e3, bound.product_flops / 1e9, bound.product_seconds * 1e3,
      bound.optimizer_bytes / 1e9, bound.optimizer_seconds * 1e3);
  fmt::print("the bound is {:.1f} % of the least step of gpt_mpi, {:.2f} ms\n",
             percent(bound.seconds(), untimed), untimed * 1e3);
}

nlohmann::json operators_json(const StepProfile& profile, const Peaks& peaks, double untimed) {
  nlohmann::json rows = nlohmann::json::array();
  for (const OperatorTime& time : profile.operators) {
    const double bound = bound_of(time.work, peaks);
    rows.push_back({{"operation", time.name},
                    {"calls", time.calls},
                    {"seconds", time.seconds},
                    {"share", time.seconds / profile.seconds()},
                    {"flops", time.work.flops},
                    {"bytes", time.work.bytes},
                    {"operands", name_of(time.work.operands)},
                    {"bound_s", bound},
                    {"of_peak", time.seconds > 0 ? bound / time.seconds : 0.0}});
  }
  const StepBound bound = bound_of_step(profile, peaks);
  return {{"step_s", profile.seconds()},
          {"between_s", profile.between},
          {"peak_f32_flops", peaks.f32_flops},
          {"peak_bf16_flops", peaks.bf16_flops},
          {"peak_bytes_per_s", peaks.bytes},
          {"product_flops", bound.product_flops},
          {"optimizer_bytes", bound.optimizer_bytes},
          {"bound_s", bound.seconds()},
          {"of_bound", bound.seconds() / untimed},
          {"operations", rows}};
}

}  // namespace gpt
