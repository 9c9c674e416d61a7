#include "reference.hpp"

#include "harness.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <functional>

using namespace gpt;
using namespace gpt::reference;
using test::random_tokens;
using test::random_values;

namespace {

constexpr Dropout dropping{.rate = 0.4F, .seed = 99, .step = 3, .site = 2, .first_sequence = 5};

/// Largest difference between `gradient` and central differences of `loss` around `at`, relative to the
/// largest element.
double gradient_error(const Array& gradient, Array at, const std::function<double(const Array&)>& loss) {
  constexpr double h = 1e-5;
  Array differences;
  for (double& value : at) {
    const double middle = value;
    value = middle + h;
    const double above = loss(at);
    value = middle - h;
    const double below = loss(at);
    value = middle;
    differences.push_back((above - below) / (2.0 * h));
  }
  return test::max_error(gradient, differences);
}

double dot(const Array& a, const Array& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

constexpr double tolerance = 1e-7;

}  // namespace

TEST_CASE("reference: embedding gradients are the differences of the forward pass") {
  const EmbedSizes s{2, 3, 4, 5, 6, 0};
  const Tokens tokens = random_tokens(6, s.vocabulary, 1);
  const Array wte = random_values(20, 2);
  const Array wpe = random_values(24, 3);
  const Array dx = random_values(24, 4);
  const EmbedGradients d = embed_backward(s, dx, tokens, dropping);
  CHECK(gradient_error(d.wte, wte, [&](const Array& v) {
          return dot(dx, embed(s, tokens, v, wpe, dropping));
        }) < tolerance);
  CHECK(gradient_error(d.wpe, wpe, [&](const Array& v) {
          return dot(dx, embed(s, tokens, wte, v, dropping));
        }) < tolerance);
}

TEST_CASE("reference: norm gradients are the differences of the forward pass") {
  const NormSizes s{2, 3, 5};
  const Array x = random_values(30, 1);
  const Array delta = random_values(30, 2);
  const Array weight = random_values(5, 3);
  const Array bias = random_values(5, 4);
  const Array dy = random_values(30, 5);
  const Array d_sum = random_values(30, 6);  // what the residual stream brings
  const NormResult forward = add_norm(s, x, delta, weight, bias, dropping);
  const NormGradients d = add_norm_backward(s, dy, forward.sum, weight, d_sum, dropping);
  const auto loss = [&](const Array& at_x, const Array& at_delta, const Array& at_weight,
                        const Array& at_bias) {
    const NormResult r = add_norm(s, at_x, at_delta, at_weight, at_bias, dropping);
    return dot(dy, r.y) + dot(d_sum, r.sum);
  };
  CHECK(gradient_error(d.dx, x, [&](const Array& v) { return loss(v, delta, weight, bias); }) < tolerance);
  CHECK(gradient_error(d.d_delta, delta, [&](const Array& v) { return loss(x, v, weight, bias); }) <
        tolerance);
  CHECK(gradient_error(d.d_weight, weight, [&](const Array& v) { return loss(x, delta, v, bias); }) <
        tolerance);
  CHECK(gradient_error(d.d_bias, bias, [&](const Array& v) { return loss(x, delta, weight, v); }) <
        tolerance);
}

TEST_CASE("reference: linear and gelu gradients are the differences of the forward pass") {
  const LinearSizes s{3, 4, 5};
  const Array before = random_values(12, 1);
  const Array w = random_values(20, 2);
  const Array b = random_values(5, 3);
  const Array dy = random_values(15, 4);
  const auto activated = [](Array values) {
    for (double& value : values) value = gelu(value);
    return values;
  };
  const auto loss = [&](const Array& at_before, const Array& at_w, const Array& at_b) {
    return dot(dy, linear(s, activated(at_before), at_w, at_b));
  };
  Array d_before = linear_backward_input(s, dy, w);
  for (size_t i = 0; i < d_before.size(); ++i) d_before[i] *= gelu_slope(before[i]);
  CHECK(gradient_error(d_before, before, [&](const Array& v) { return loss(v, w, b); }) < tolerance);
  CHECK(gradient_error(linear_backward_weight(s, dy, activated(before)), w,
                       [&](const Array& v) { return loss(before, v, b); }) < tolerance);
  CHECK(gradient_error(column_sums(s, dy), b, [&](const Array& v) { return loss(before, w, v); }) <
        tolerance);
}

TEST_CASE("reference: attention gradients are the differences of the forward pass") {
  const AttentionSizes s{2, 4, 2, 3};
  const Array qkv = random_values(2 * 4 * 18, 1);
  const Array dy = random_values(2 * 4 * 6, 2);
  for (const Dropout& dropout : {Dropout{}, dropping})
    CHECK(gradient_error(attention_backward(s, dy, qkv, dropout), qkv,
                         [&](const Array& v) { return dot(dy, attention(s, v, dropout).y); }) < tolerance);
}

TEST_CASE("reference: classifier gradients are the differences of the loss") {
  const ClassifierSizes s{4, 3, 5, 8};
  const Array x = random_values(12, 1);
  const Array w = random_values(24, 2);
  const Tokens targets = random_tokens(4, s.vocabulary, 3);
  const double scale = 0.25;
  const ClassifierGradients d = classifier_backward(s, x, w, targets, scale);
  CHECK(gradient_error(d.dx, x, [&](const Array& v) { return scale * classifier_loss(s, v, w, targets); }) <
        tolerance);
  CHECK(gradient_error(d.dw, w, [&](const Array& v) { return scale * classifier_loss(s, x, v, targets); }) <
        tolerance);
}
