#include "reference.hpp"

#include <algorithm>
#include <cmath>

namespace gpt::reference {
namespace {

enum Part : int64_t { query, key, value };

/// Place of (sequence, position, head, 0) in a tensor with `parts` parts of width C in each row.
int64_t place(const AttentionSizes& s, int64_t parts, int64_t part, int64_t sequence, int64_t position,
              int64_t head) {
  return ((sequence * s.positions + position) * parts + part) * s.width() + head * s.head_size;
}

double dot(const double* a, const double* b, int64_t size) {
  double sum = 0.0;
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

/// Softmax of query q over the keys that it may see; log_sum is log Σ exp(score).
Array probabilities(const AttentionSizes& s, const Array& qkv, int64_t b, int64_t h, int64_t q,
                    double& log_sum) {
  Array p;
  for (int64_t k = 0; k <= q; ++k)
    p.push_back(dot(&qkv[place(s, 3, query, b, q, h)], &qkv[place(s, 3, key, b, k, h)], s.head_size) /
                std::sqrt(static_cast<double>(s.head_size)));
  const double most = *std::max_element(p.begin(), p.end());
  double sum = 0.0;
  for (double& value : p) sum += value = std::exp(value - most);
  for (double& value : p) value /= sum;
  log_sum = most + std::log(sum);
  return p;
}

int64_t element(const AttentionSizes& s, int64_t h, int64_t q, int64_t k) {
  return (h * s.positions + q) * s.positions + k;
}

}  // namespace

AttentionResult attention(const AttentionSizes& s, const Array& qkv, const Dropout& dropout) {
  AttentionResult result{Array(s.sequences * s.positions * s.width()), {}};
  for (int64_t b = 0; b < s.sequences; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t q = 0; q < s.positions; ++q) {
        double log_sum = 0.0;
        const Array p = probabilities(s, qkv, b, h, q, log_sum);
        result.log_sum.push_back(log_sum);
        double* y = &result.y[place(s, 1, 0, b, q, h)];
        for (int64_t k = 0; k <= q; ++k) {
          const double weight = p[k] * dropout_factor(dropout, b, element(s, h, q, k));
          const double* v = &qkv[place(s, 3, value, b, k, h)];
          for (int64_t d = 0; d < s.head_size; ++d) y[d] += weight * v[d];
        }
      }
  return result;
}

Array attention_backward(const AttentionSizes& s, const Array& dy, const Array& qkv, const Dropout& dropout) {
  Array d(qkv.size());
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_size));
  for (int64_t b = 0; b < s.sequences; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t q = 0; q < s.positions; ++q) {
        double log_sum = 0.0;
        const Array p = probabilities(s, qkv, b, h, q, log_sum);
        const double* g = &dy[place(s, 1, 0, b, q, h)];
        Array dp;
        double mean = 0.0;
        for (int64_t k = 0; k <= q; ++k) {
          const double factor = dropout_factor(dropout, b, element(s, h, q, k));
          dp.push_back(factor * dot(g, &qkv[place(s, 3, value, b, k, h)], s.head_size));
          mean += p[k] * dp[k];
          double* dv = &d[place(s, 3, value, b, k, h)];
          for (int64_t i = 0; i < s.head_size; ++i) dv[i] += factor * p[k] * g[i];
        }
        for (int64_t k = 0; k <= q; ++k) {
          const double d_score = p[k] * (dp[k] - mean) * scale;
          for (int64_t i = 0; i < s.head_size; ++i) {
            d[place(s, 3, query, b, q, h) + i] += d_score * qkv[place(s, 3, key, b, k, h) + i];
            d[place(s, 3, key, b, k, h) + i] += d_score * qkv[place(s, 3, query, b, q, h) + i];
          }
        }
      }
  return d;
}

}  // namespace gpt::reference
