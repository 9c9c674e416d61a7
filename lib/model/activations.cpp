#include "model/activations.hpp"

namespace gpt {

Activations::Activations(const GptConfig& config, Device& device, int64_t sequences, DType dtype,
                         bool backward) {
  const int64_t rows = sequences * config.context;
  const auto make = [&](DType type, std::initializer_list<int64_t> shape) {
    TensorBuffer buffer(device, type, shape);
    bytes += buffer->bytes();
    return buffer;
  };
  const auto statistics = [&] { return make(DType::f32, {rows}); };
  const auto wide = [&](DType type, int64_t columns) {
    return make(type, {sequences, config.context, columns});
  };
  const int64_t width = config.width;

  for (int64_t layer = 0; layer < config.layers; ++layer) {
    blocks.push_back({
        .input = wide(DType::f32, width),
        .normed1 = wide(dtype, width),
        .mean1 = statistics(),
        .rstd1 = statistics(),
        .qkv = wide(dtype, 3 * width),
        .log_sum = make(DType::f32, {sequences, config.heads, config.context}),
        .attended = wide(dtype, width),
        .middle = wide(DType::f32, width),
        .normed2 = wide(dtype, width),
        .mean2 = statistics(),
        .rstd2 = statistics(),
        .expanded_pre = wide(dtype, 4 * width),
        .expanded = wide(dtype, 4 * width),
    });
  }
  branch = wide(dtype, width);
  output = wide(DType::f32, width);
  normed = wide(dtype, width);
  mean = statistics();
  rstd = statistics();
  if (!backward) return;
  d_residual = wide(DType::f32, width);
  d_branch = wide(dtype, width);
  d_normed = wide(dtype, width);
  d_qkv = wide(dtype, 3 * width);
  d_expanded = wide(dtype, 4 * width);
  d_attended = wide(dtype, width);
}

}  // namespace gpt
