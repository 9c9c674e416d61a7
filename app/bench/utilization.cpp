#include "bench/utilization.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpt {

void print_utilization(const Utilization& used, const Times& steps) {
  constexpr double tera = 1e12;
  fmt::print("  MFU {:.1f} %: {:.4g} TFLOP in the median of steps, of {:.4g} TFLOP/s, {}\n",
             100 * used.mfu(steps), used.model_flops / tera, used.peak_flops / tera,
             used.documented ? "as documented" : "as measured");
}

nlohmann::json utilization_json(const Utilization& used, const Times& steps) {
  return {{"name", used.gpu},
          {"documented", used.documented},
          {"peak_flops", used.peak_flops},
          {"model_flops", used.model_flops},
          {"mfu", used.mfu(steps)}};
}

}  // namespace gpt
