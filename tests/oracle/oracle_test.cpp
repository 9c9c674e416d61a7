// Holds the model, the operators under it and the optimizer against what PyTorch computed in double
// precision.

#include "oracle/oracle.hpp"

#include "oracle/closeness.hpp"
#include "oracle/trainee.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

using test::distance_of;
using test::error_of;
using test::Oracle;
using test::Trainee;

// Shares of a tensor's largest element. Ten times what single precision leaves on these models; after AdamW
// more, since it divides each gradient by its own size, and of the smallest ones much is rounding.
constexpr double tolerance = 1e-5;
constexpr double trained_tolerance = 5e-5;

// With eight bits of significand a rounding is off by 0.1 % in the mean (2⁻⁹/√3), and a gradient stands
// behind those of weights, of some ten activations in each of two layers, and of as many of their gradients:
// about 40, which add up like 0.1 %·√40. Of single parameters up to four times that, where terms cancel.
constexpr double half_tolerance = 0.03;
constexpr double half_loss_tolerance = 0.003;

const std::string models[] = {"bias", "plain", "small"};

// Keys' biases add the same to all scores of a query, so that their true gradient is zero; AdamW makes steps
// of full length out of the rounding that is left.
void forget_key_bias(const Parameter& parameter, std::vector<float>& values) {
  if (!parameter.name.ends_with("c_attn.bias")) return;
  const int64_t third = std::ssize(values) / 3;
  std::fill_n(values.begin() + third, third, 0.0F);
}

}  // namespace

TEST_CASE("logits agree with PyTorch") {
  for (const std::string& model : models) {
    for (const int threads : {1, 2}) {
      INFO(model, ", ", threads, " threads");
      const Oracle oracle(model);
      Trainee trainee(oracle, threads);
      CHECK(error_of(trainee.logits(oracle.tokens("tokens")), oracle.floats("logits")) < tolerance);
    }
  }
}

TEST_CASE("the loss and every gradient agree with PyTorch, in one batch and accumulated over micro-batches") {
  for (const std::string& model : models) {
    const Oracle oracle(model);
    for (const int64_t micro : {3, 2, 1}) {
      INFO(model, ", micro-batches of ", micro);
      Trainee trainee(oracle, 2);
      const std::vector<int32_t> tokens = oracle.tokens("tokens"), targets = oracle.tokens("targets");
      const double expected = oracle.floats("loss").at(0);
      CHECK(std::abs(trainee.mean_evaluation_loss(tokens, targets) / expected - 1) < tolerance);
      CHECK(std::abs(trainee.train(tokens, targets, micro) / expected - 1) < tolerance);
      for (const Parameter& parameter : trainee.layout().all()) {
        INFO(parameter.name);
        CHECK(error_of(trainee.gradient(parameter), oracle.floats("gradients/" + parameter.name)) <
              tolerance);
      }
    }
  }
}

TEST_CASE("in bf16 logits, loss and every gradient stay within its rounding of PyTorch's") {
  for (const std::string& model : models) {
    const Oracle oracle(model);
    for (const int64_t micro : {3, 2}) {
      INFO(model, ", micro-batches of ", micro);
      Trainee trainee(oracle, 2, DType::bf16);
      const std::vector<int32_t> tokens = oracle.tokens("tokens"), targets = oracle.tokens("targets");
      const double expected = oracle.floats("loss").at(0);
      CHECK(distance_of(trainee.logits(tokens), oracle.floats("logits")) < half_tolerance);
      CHECK(std::abs(trainee.mean_evaluation_loss(tokens, targets) / expected - 1) < half_loss_tolerance);
      CHECK(std::abs(trainee.train(tokens, targets, micro) / expected - 1) < half_loss_tolerance);
      for (const Parameter& parameter : trainee.layout().all()) {
        INFO(parameter.name);
        CHECK(distance_of(trainee.gradient(parameter), oracle.floats("gradients/" + parameter.name)) <
              half_tolerance);
      }
    }
  }
}

TEST_CASE("ten AdamW steps with clipping and a schedule agree with PyTorch") {
  for (const std::string& model : models) {
    INFO(model);
    const Oracle oracle(model);
    Trainee trainee(oracle, 2);
    const int64_t context = trainee.config().context;
    const std::vector<int32_t> batches = oracle.tokens("batches");
    const std::vector<float> lr = oracle.floats("lr");
    const std::vector<float> losses = oracle.floats("losses"), norms = oracle.floats("grad_norms");
    auto at = batches.begin();
    for (int64_t step = 1; step <= oracle.integer("steps"); ++step) {
      INFO("step ", step);
      std::vector<int32_t> inputs, targets;
      for (int64_t sequence = 0; sequence < trainee.sequences(); ++sequence, at += context + 1) {
        inputs.insert(inputs.end(), at, at + context);
        targets.insert(targets.end(), at + 1, at + 1 + context);
      }
      const auto index = static_cast<size_t>(step - 1);
      CHECK(std::abs(trainee.train(inputs, targets, trainee.sequences()) / losses.at(index) - 1) < tolerance);
      CHECK(std::abs(trainee.update(step, lr.at(index)) / norms.at(index) - 1) < tolerance);
    }
    CHECK(std::ranges::max(norms) > oracle.real("clip"));
    for (const Parameter& parameter : trainee.layout().all()) {
      INFO(parameter.name);
      std::vector<float> weight = trainee.weight(parameter),
                         expected = oracle.floats("trained/" + parameter.name);
      forget_key_bias(parameter, weight);
      forget_key_bias(parameter, expected);
      CHECK(error_of(weight, expected) < trained_tolerance);
    }
    CHECK(trainee.stray_elements() == 0);
  }
}

}  // namespace gpt
