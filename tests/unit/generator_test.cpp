#include "model/generator.hpp"

#include "base/philox.hpp"
#include "support/watchful_device.hpp"
#include "train/weights.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <span>
#include <vector>

using namespace gpt;

namespace {

constexpr Sampling greedy{.temperature = 0.0};

const GptConfig small{.layers = 3, .heads = 3, .width = 39, .context = 21, .vocabulary = 97, .bias = true};

/// A model whose weights are large enough for its logits to differ clearly.
struct Model {
  explicit Model(DType type) : device(make_cpu_device(2)), layout(small), weights(layout, *device, type) {
    const auto queue = device->make_queue();
    set_initial_weights(weights, layout, small, 7, *queue);
    const Tensor matrices = weights.master(layout.matrices());
    for (int64_t i = 0; i < matrices.size(); ++i) matrices.data<float>()[i] *= 8.0F;
    weights.round(to_nearest, *queue);
  }

  Generator generator(int64_t sequences = 1) {
    return {small, *device, weights.with({}), small.vocabulary, sequences};
  }

  /// After the last of `tokens`, by the forward pass of training.
  std::vector<float> full_logits(std::vector<int32_t> tokens) {
    const auto positions = std::ssize(tokens);
    const GptConfig& config = small;
    Gpt model(config, *device, 1, weights.with({}));
    tokens.resize(static_cast<size_t>(config.context));  // causal: what follows changes nothing
    const DType type = weights.with({}).matrices.dtype();
    const TensorBuffer out(*device, type, {1, config.context, config.padded_vocabulary()});
    const Tensor input(tokens.data(), DType::i32, {1, config.context});
    const auto queue = device->make_queue();
    model.logits(out, {.inputs = input, .targets = input}, *queue);
    const int64_t first = (positions - 1) * config.padded_vocabulary();
    std::vector<float> row;
    for (int64_t i = first; i < first + config.vocabulary; ++i)
      row.push_back(type == DType::bf16 ? static_cast<float>(out->data<bfloat16>()[i])
                                        : out->data<float>()[i]);
    return row;
  }

  std::unique_ptr<Device> device;
  Layout layout;
  Weights weights;
};

std::vector<int32_t> some_tokens(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random_bits(3, static_cast<uint64_t>(i)) % 97));
  return tokens;
}

std::vector<float> row_of(const Tensor& logits, int64_t row) {
  const float* first = logits.data<float>() + row * logits.columns();
  return {first, first + small.vocabulary};
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

double largest_value(const std::vector<float>& values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

int32_t likeliest(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

/// The last `context` tokens, or where the context was full before, those that were kept and read since.
std::vector<int32_t> window_of(const std::vector<int32_t>& tokens) {
  int64_t start = 0;
  for (int64_t length = 1; length <= std::ssize(tokens); ++length)
    if (length - start > small.context) start = length - small.context / 2;
  return {tokens.begin() + start, tokens.end()};
}

}  // namespace

TEST_CASE("greedy generation with the cache draws what full forward passes draw, across the context") {
  for (const int64_t prompt : {int64_t{1}, int64_t{5}, small.context}) {
    Model model(DType::f32);
    Generator generator = model.generator();
    std::vector<int32_t> tokens = some_tokens(prompt);
    generator.start(tokens, greedy, 0);
    for (int64_t i = 0; i < 3 * small.context; ++i) {
      const std::vector<float> expected = model.full_logits(window_of(tokens));
      const std::vector<float> logits = row_of(generator.logits(), 0);
      INFO("prompt ", prompt, ", token ", i);
      REQUIRE(largest_difference(logits, expected) < 2e-5 * largest_value(expected));
      const int32_t token = generator.next().front();
      REQUIRE(token == likeliest(expected));
      tokens.push_back(token);
    }
  }
}

TEST_CASE("logits of bf16 stay near those of f32, with the cache as without") {
  Model wide(DType::f32), narrow(DType::bf16);
  Generator generator = narrow.generator();
  std::vector<int32_t> tokens = some_tokens(4);
  generator.start(tokens, greedy, 0);
  for (int64_t i = 0; i < 2 * small.context; ++i) {
    const std::vector<int32_t> window = window_of(tokens);
    const std::vector<float> expected = wide.full_logits(window), rounded = narrow.full_logits(window);
    const std::vector<float> logits = row_of(generator.logits(), 0);
    INFO("token ", i);
    CHECK(largest_difference(logits, expected) < 0.05 * largest_value(expected));
    CHECK(largest_difference(logits, rounded) < 0.05 * largest_value(expected));
    tokens.push_back(generator.next().front());
  }
}

TEST_CASE("a sequence has the same tokens and logits whatever their number") {
  constexpr int64_t most = Generator::most_sequences;
  const Sampling hot{.temperature = 1.5, .seed = 11};
  const std::vector<int32_t> prompt = some_tokens(6);
  for (const DType type : {DType::f32, DType::bf16}) {
    Model model(type);
    Generator together = model.generator(most), alone = model.generator();
    constexpr uint64_t first = 5, chosen = 2;
    together.start(prompt, hot, first, most);
    alone.start(prompt, hot, first + chosen);
    bool same_bits = true;
    for (int64_t i = 0; i < 3 * small.context; ++i) {
      same_bits = same_bits && row_of(together.logits(), chosen) == row_of(alone.logits(), 0);
      const int32_t token = together.next()[chosen];
      REQUIRE(token == alone.next().front());
    }
    CHECK(same_bits);
  }
}

TEST_CASE("tokens are read from the device's memory, and stay on the host until they have arrived there") {
  test::WatchfulDevice device;
  const Layout layout(small);
  const TensorBuffer weights(device, DType::f32, {layout.size()});
  initialize_weights(layout, small, 7, weights);
  constexpr int64_t sequences = 3;
  Generator generator(small, device, parameters_in(layout, weights, {}), small.vocabulary, sequences);
  generator.start(some_tokens(small.context), {.temperature = 1.5, .seed = 11}, 0, sequences);
  CHECK(device.tokens_uploaded == small.context);
  const std::span<const int32_t> drawn = generator.next();
  CHECK(drawn[0] != drawn[1]);  // else a token may be overwritten with itself
  generator.logits();           // the context is full: the last half of each sequence is read again
  CHECK(device.tokens_uploaded == small.context + sequences * (small.context / 2));
  generator.next();
  generator.logits();
  CHECK(device.tokens_uploaded == small.context + sequences * (small.context / 2 + 1));
  CHECK(device.changed_too_early == 0);
}
