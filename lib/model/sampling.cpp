#include "model/sampling.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/philox.hpp"
#include "device/softmax_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>
#include <vector>

namespace gpt {

void validate_sampling(const Sampling& sampling) {
  validate(std::isfinite(sampling.temperature) && sampling.temperature >= 0.0,
           "--temperature {}: use 0 (greedy) or a positive number", sampling.temperature);
  validate(sampling.top_k >= 0, "--top-k {}: use 0 (all tokens) or a positive number", sampling.top_k);
  validate(sampling.top_p > 0.0 && sampling.top_p <= 1.0, "--top-p {}: use a number above 0, up to 1",
           sampling.top_p);
}

namespace {

/// Numbers that are not finite compare and add up to one and the same token at every draw.
void check_logits(std::span<const float> logits) {
  const auto bad = std::ranges::find_if_not(logits, [](float logit) { return std::isfinite(logit); });
  if (bad == logits.end()) return;
  throw Error(
      fmt::format("the model's logit of token {} is {}, not a finite number: its weights are damaged, or "
                  "grew too large in training. Take an earlier checkpoint (gpt_sample --checkpoint FILE)",
                  bad - logits.begin(), *bad),
      ExitCode::bad_numbers);
}

/// Leaves in `order` only the likeliest tokens, as few as reach `wanted` together; returns their weight. Puts
/// in order no more than it looks at: that is a small part of a large vocabulary.
template <class Likelier>
double keep_nucleus(std::vector<int32_t>& order, const Likelier& likelier, const std::vector<float>& weights,
                    double wanted) {
  constexpr std::ptrdiff_t first_part = 256;
  double nucleus = 0.0;
  std::ptrdiff_t kept = 0, sorted = 0;
  while (kept < std::ssize(order) && nucleus < wanted) {
    if (kept == sorted) {
      sorted = std::min(std::max(first_part, 4 * sorted), std::ssize(order));
      std::partial_sort(order.begin() + kept, order.begin() + sorted, order.end(), likelier);
    }
    nucleus += static_cast<double>(weights[static_cast<size_t>(order[static_cast<size_t>(kept++)])]);
  }
  order.resize(static_cast<size_t>(kept));
  return nucleus;
}

/// The tokens that top-k and top-p leave, likeliest first with top-p; `total` becomes their weight.
std::vector<int32_t> candidates(std::span<const float> logits, const std::vector<float>& weights,
                                const Sampling& sampling, double& total) {
  const auto likelier = [&](int32_t a, int32_t b) {
    const float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (sampling.top_k > 0 && sampling.top_k < std::ssize(logits)) {
    std::nth_element(order.begin(), order.begin() + sampling.top_k, order.end(), likelier);
    order.resize(static_cast<size_t>(sampling.top_k));
    std::ranges::sort(order);  // else the library's algorithm would decide who is drawn
    total = 0.0;
    for (const int32_t token : order) total += static_cast<double>(weights[static_cast<size_t>(token)]);
  }
  if (sampling.top_p < 1.0) total = keep_nucleus(order, likelier, weights, sampling.top_p * total);
  return order;
}

/// The token at which the weights, added up in the tokens' order, exceed `point`; `fallback` where rounding
/// has left something of it.
template <class Tokens>
int32_t token_at(double point, const Tokens& tokens, const std::vector<float>& weights, int32_t fallback) {
  for (const int32_t token : tokens) {
    point -= static_cast<double>(weights[static_cast<size_t>(token)]);
    if (point < 0.0) return token;
  }
  return fallback;
}

}  // namespace

int32_t sample(std::span<const float> logits, const Sampling& sampling, uint64_t sequence, uint64_t index) {
  expects(!logits.empty());
  check_logits(logits);
  const auto likeliest = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  if (sampling.temperature == 0.0) return likeliest;

  std::vector<float> weights(logits.size());
  constexpr double steepest = std::numeric_limits<float>::max();
  double total = softmax_weights(weights.data(), logits.data(), std::ssize(logits),
                                 static_cast<float>(std::min(1.0 / sampling.temperature, steepest)));
  const double part = to_unit(random_bits(sampling.seed, index, sequence));
  const bool takes_all =
      (sampling.top_k == 0 || sampling.top_k >= std::ssize(logits)) && sampling.top_p == 1.0;
  if (takes_all)
    return token_at(part * total, std::views::iota(0, static_cast<int32_t>(logits.size())), weights,
                    likeliest);
  const std::vector<int32_t> left = candidates(logits, weights, sampling, total);
  return token_at(part * total, left, weights, likeliest);
}

}  // namespace gpt
