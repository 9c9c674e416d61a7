#include "model/sampling.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/philox.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace gpt {

void validate_sampling(const Sampling& sampling) {
  validate(std::isfinite(sampling.temperature) && sampling.temperature >= 0.0,
           "--temperature {}: use 0 (greedy) or a positive number", sampling.temperature);
  validate(sampling.top_k >= 0, "--top-k {}: use 0 (all tokens) or a positive number", sampling.top_k);
  validate(sampling.top_p > 0.0 && sampling.top_p <= 1.0, "--top-p {}: use a number above 0, up to 1",
           sampling.top_p);
}

int32_t sample(std::span<const float> logits, const Sampling& sampling, uint64_t sequence, uint64_t index) {
  expects(!logits.empty());
  if (sampling.temperature == 0.0)
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());

  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  const auto vocabulary = static_cast<int64_t>(order.size());
  const int64_t kept = sampling.top_k == 0 ? vocabulary : std::min(sampling.top_k, vocabulary);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), likelier);
  order.resize(static_cast<size_t>(kept));

  const double largest = logits[static_cast<size_t>(order.front())];
  std::vector<double> weights;
  weights.reserve(order.size());
  for (int32_t token : order)
    weights.push_back(std::exp((logits[static_cast<size_t>(token)] - largest) / sampling.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);

  double nucleus = 0.0;
  size_t candidates = 0;
  while (candidates < weights.size() && nucleus < sampling.top_p * total) nucleus += weights[candidates++];

  double point = to_unit(random_bits(sampling.seed, index, sequence)) * nucleus;
  for (size_t i = 0; i + 1 < candidates; ++i) {
    point -= weights[i];
    if (point < 0.0) return order[i];
  }
  return order[candidates - 1];
}

}  // namespace gpt
