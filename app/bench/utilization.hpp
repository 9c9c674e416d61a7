#pragma once

#include "bench/gpu_limits.hpp"
#include "bench/times.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

/// How well steps use a GPU: model FLOPs utilization.
struct Utilization {
  std::string gpu;
  bool documented = false;   ///< the peak
  double peak_flops = 0.0;   ///< a second, of products in the step's precision
  double model_flops = 0.0;  ///< that the step's tokens are worth (model_flops_per_token)

  double mfu(const Times& steps) const { return model_flops / steps.median() / peak_flops; }
};

/// A line; docs/benchmarks.md explains it.
void print_utilization(const Utilization& used, const Times& steps);

/// The same figures.
nlohmann::json utilization_json(const Utilization& used, const Times& steps);

}  // namespace gpt
