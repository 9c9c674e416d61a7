#include "base/contracts.hpp"
#include "base/normal.hpp"
#include "model/gpt.hpp"

#include <cmath>

namespace gpt {
namespace {

constexpr double embedding_deviation = 0.02;

bool is_norm_weight(const Parameter& parameter) {
  return !parameter.is_matrix && parameter.name.ends_with(".weight");
}

bool ends_residual_branch(const Parameter& parameter) { return parameter.name.ends_with("c_proj.weight"); }

}  // namespace

void initialize_weights(const Layout& layout, const GptConfig& config, uint64_t seed, Tensor weights) {
  expects(weights.size() == layout.size());
  float* const values = weights.data<float>();
  const double residual_scale = 1.0 / std::sqrt(2.0 * static_cast<double>(config.layers));
  uint64_t index = 0;
  for (const Parameter& parameter : layout.all()) {
    float* const first = values + parameter.offset;
    const double deviation = embedding_deviation * (ends_residual_branch(parameter) ? residual_scale : 1.0);
    const uint64_t stream = index++;
    if (is_norm_weight(parameter)) {
      for (int64_t i = 0; i < parameter.size(); ++i) first[i] = 1.0F;
    } else if (parameter.is_matrix) {
#pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < parameter.size(); ++i)
        first[i] = static_cast<float>(deviation * random_normal(seed, static_cast<uint64_t>(i), stream));
    }
  }
}

}  // namespace gpt
