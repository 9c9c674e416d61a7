// Holds a model that drops elements against finite differences of its loss in double precision, under the
// same masks.

#include "base/normal.hpp"
#include "base/philox.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "oracle/closeness.hpp"
#include "oracle/reference_model.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <vector>

namespace gpt {
namespace {

using reference::Array;
using reference::Tokens;

// Two layers: a block's last branch is dropped on the way into the next block, and the last block's on the
// way into the final norm.
const GptConfig tiny{
    .layers = 2, .heads = 2, .width = 8, .context = 6, .vocabulary = 11, .bias = true, .dropout = 0.25F};
constexpr int64_t sequences = 3, micro_batch = 2;  // those of the second micro-batch have masks of their own
constexpr uint64_t seed = 77;
constexpr uint32_t step = 3;

float rounded(double value) { return static_cast<float>(bfloat16(static_cast<float>(value))); }

/// Wider than real initial weights, so that each parameter matters, and exact in bf16.
std::vector<float> some_weights(const Layout& layout) {
  std::vector<float> weights(static_cast<size_t>(layout.size()));
  for (const Parameter& parameter : layout.all()) {
    const bool gain = !parameter.is_matrix && parameter.name.ends_with(".weight");
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size(); ++i)
      weights[static_cast<size_t>(i)] =
          rounded((gain ? 1.0 : 0.0) + 0.3 * random_normal(21, static_cast<uint64_t>(i)));
  }
  return weights;
}

Tokens some_tokens(uint64_t key) {
  Tokens tokens;
  for (int64_t i = 0; i < sequences * tiny.context; ++i)
    tokens.push_back(static_cast<int32_t>(random_bits(key, static_cast<uint64_t>(i)) %
                                          static_cast<uint64_t>(tiny.vocabulary)));
  return tokens;
}

/// Sums over the batch, and the gradients of that.
struct Computed {
  double loss = 0.0;
  std::vector<float> gradients;  // of all elements
};

/// By the model, whose activations and matrices have that type.
Computed computed(const Layout& layout, DType type, std::vector<float> flat, Tokens inputs, Tokens targets) {
  const auto device = make_cpu_device(2);
  const auto queue = device->make_queue();
  const Tensor weights(flat.data(), DType::f32, {layout.size()});
  const TensorBuffer matrices(*device, type, {layout.matrices().size()});
  const TensorBuffer gradients(*device, DType::f32, {layout.size()});
  const TensorBuffer loss(*device, DType::f64, {1});
  if (type == DType::f32)
    queue->copy(matrices, weights.flat(layout.matrices()));
  else
    device->ops().cast(matrices, weights.flat(layout.matrices()), *queue);
  Gpt model(tiny, *device, micro_batch,
            {.matrices = matrices, .vectors = weights.flat(layout.vectors()), .gradients = gradients});
  const Tensor all_inputs(inputs.data(), DType::i32, {sequences, tiny.context});
  const Tensor all_targets(targets.data(), DType::i32, {sequences, tiny.context});
  SectionListener nobody;
  MicroStep micro{.dropout_seed = seed, .step = step};
  for (int64_t first = 0; first < sequences; first += micro_batch) {
    const Range part{first, std::min(first + micro_batch, sequences)};
    model.train(
        {.inputs = all_inputs.slice(part), .targets = all_targets.slice(part), .first_sequence = first}, loss,
        micro, nobody, *queue);
    micro.write = Write::accumulate;
  }
  queue->synchronize();
  const float* const begin = gradients->data<float>();
  return {*loss->data<double>(), {begin, begin + layout.size()}};
}

std::vector<float> elements_of(const Parameter& parameter, const std::vector<float>& flat) {
  const auto first = flat.begin() + parameter.offset;
  return {first, first + parameter.size()};
}

/// Of every element of a parameter, with an error of the order of 1e-9.
Array finite_differences(const Layout& layout, const Parameter& parameter, Array weights,
                         const Tokens& inputs, const Tokens& targets, const Dropout& dropout) {
  constexpr double distance = 1e-4;
  Array differences;
  for (int64_t i = parameter.offset; i < parameter.offset + parameter.size(); ++i) {
    double& element = weights[static_cast<size_t>(i)];
    const double here = element;
    const auto loss_at = [&](double value) {
      element = value;
      return reference::model_loss(tiny, layout, weights, inputs, targets, dropout);
    };
    differences.push_back((loss_at(here + distance) - loss_at(here - distance)) / (2.0 * distance));
    element = here;
  }
  return differences;
}

}  // namespace

TEST_CASE("with dropout the loss and every gradient are those of finite differences under the same masks") {
  const Layout layout(tiny);
  const std::vector<float> weights = some_weights(layout);
  const Tokens inputs = some_tokens(1), targets = some_tokens(2);
  const Array exact(weights.begin(), weights.end());
  const Dropout dropout{.rate = tiny.dropout, .seed = seed, .step = step};
  const double loss = reference::model_loss(tiny, layout, exact, inputs, targets, dropout);
  const double undropped = reference::model_loss(tiny, layout, exact, inputs, targets, {});
  CHECK(std::abs(undropped / loss - 1) > 0.01);

  const Computed single = computed(layout, DType::f32, weights, inputs, targets);
  const Computed half = computed(layout, DType::bf16, weights, inputs, targets);
  CHECK(std::abs(single.loss / loss - 1) < 1e-5);
  CHECK(std::abs(half.loss / loss - 1) < 0.01);
  for (const Parameter& parameter : layout.all()) {
    INFO(parameter.name);
    const Array expected = finite_differences(layout, parameter, exact, inputs, targets, dropout);
    CHECK(test::error_of(elements_of(parameter, single.gradients), expected) < 1e-5);
    CHECK(test::distance_of(elements_of(parameter, half.gradients), expected) < 0.03);
  }
}

}  // namespace gpt
