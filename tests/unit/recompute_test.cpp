#include "base/philox.hpp"
#include "device/device.hpp"
#include "model/activations.hpp"
#include "model/gpt.hpp"
#include "support/counting_device.hpp"
#include "train/weights.hpp"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <vector>

using namespace gpt;

namespace {

constexpr Recompute modes[] = {Recompute::none, Recompute::attention, Recompute::block};

const GptConfig odd{
    .layers = 3, .heads = 3, .width = 48, .context = 37, .vocabulary = 131, .bias = true, .dropout = 0.2F};

/// What a model computes of five sequences, in micro-batches of two: bytes, to compare.
struct Computed {
  double train_loss = 0.0, eval_loss = 0.0;
  std::vector<float> gradients;

  bool operator==(const Computed& other) const {
    return std::memcmp(&train_loss, &other.train_loss, sizeof train_loss) == 0 &&
           std::memcmp(&eval_loss, &other.eval_loss, sizeof eval_loss) == 0 &&
           gradients.size() == other.gradients.size() &&
           std::memcmp(gradients.data(), other.gradients.data(), gradients.size() * sizeof(float)) == 0;
  }
};

Computed compute(const GptConfig& config, DType type, Recompute recompute) {
  constexpr int64_t sequences = 5, micro_batch = 2;
  const auto device = make_cpu_device(2);
  const auto queue = device->make_queue();
  const Layout layout(config);
  Weights weights(layout, *device, type);
  const TensorBuffer gradients(*device, DType::f32, {layout.size()});
  const TensorBuffer loss(*device, DType::f64, {1}), eval_loss(*device, DType::f64, {1});
  set_initial_weights(weights, layout, config, 3, *queue);
  weights.round(to_nearest, *queue);
  Gpt model(config, *device, micro_batch, weights.with(gradients), recompute);

  std::vector<int32_t> tokens(static_cast<size_t>(sequences * config.context));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(random_bits(9, i) % static_cast<uint64_t>(config.vocabulary));
  const Tensor all(tokens.data(), DType::i32, {sequences, config.context});
  SectionListener nobody;
  MicroStep micro{.scale = 1.0F / static_cast<float>(all.size()), .dropout_seed = 5, .step = 4};
  for (int64_t first = 0; first < sequences; first += micro_batch) {
    const Tensor part = all.slice({first, std::min(first + micro_batch, sequences)});
    const Batch batch{.inputs = part, .targets = part, .first_sequence = first};
    model.train(batch, loss, micro, nobody, *queue);
    micro.write = Write::accumulate;
    model.evaluate(batch, eval_loss, nobody, *queue);  // what it leaves behind disturbs nobody
  }
  const float* const begin = gradients->data<float>();
  return {*loss->data<double>(), *eval_loss->data<double>(), {begin, begin + gradients->size()}};
}

}  // namespace

TEST_CASE("loss and gradients are the same bits whatever is computed again") {
  for (const DType type : {DType::f32, DType::bf16})
    for (const float dropout : {0.0F, 0.2F})
      for (const int64_t layers : {int64_t{1}, int64_t{3}}) {
        CAPTURE(name_of(type));
        CAPTURE(dropout);
        CAPTURE(layers);
        GptConfig config = odd;
        config.dropout = dropout;
        config.layers = layers;
        const Computed kept = compute(config, type, Recompute::none);
        CHECK(kept.train_loss > 100.0);
        CHECK((compute(config, type, Recompute::attention) == kept));
        CHECK((compute(config, type, Recompute::block) == kept));
      }
}

TEST_CASE("activations take the bytes that are announced, in every mode") {
  for (const DType type : {DType::f32, DType::bf16})
    for (const Recompute mode : modes)
      for (const bool backward : {true, false}) {
        test::CountingDevice device;
        const Activations activations(odd, device, 4, type, mode, backward);
        CHECK(activations.bytes() == device.given);
        CHECK(activation_bytes(odd, 4, type, mode, backward) == device.given);
      }
}

TEST_CASE("a layer more takes the bytes a token that the documentation gives") {
  const auto per_token = [](DType type, Recompute mode, bool backward) {
    GptConfig more = odd;
    ++more.layers;
    const int64_t sequences = 16;  // so that nothing is added for the alignment of a tensor
    return (activation_bytes(more, sequences, type, mode, backward) -
            activation_bytes(odd, sequences, type, mode, backward)) /
           (sequences * odd.context);
  };
  const int64_t c = odd.width, statistics = 16 + 4 * odd.heads;
  CHECK(per_token(DType::f32, Recompute::none, true) == 64 * c + statistics);
  CHECK(per_token(DType::bf16, Recompute::none, true) == 36 * c + statistics);
  CHECK(per_token(DType::f32, Recompute::attention, true) == 36 * c);
  CHECK(per_token(DType::bf16, Recompute::attention, true) == 22 * c);
  CHECK(per_token(DType::f32, Recompute::block, true) == 4 * c);
  CHECK(per_token(DType::bf16, Recompute::block, true) == 4 * c);
  for (const Recompute mode : modes) CHECK(per_token(DType::f32, mode, false) == 0);
}
