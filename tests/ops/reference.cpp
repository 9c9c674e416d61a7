#include "reference.hpp"

#include "base/philox.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gpt::reference {

double dropout_factor(const Dropout& dropout, int64_t sequence, int64_t element) {
  const auto block = philox(
      dropout.seed, {static_cast<uint32_t>(element / 4),
                     static_cast<uint32_t>(dropout.first_sequence + sequence), dropout.site, dropout.step});
  const double rate = static_cast<double>(dropout.rate);
  return block[static_cast<size_t>(element % 4)] >= rate * 0x1p32 ? 1.0 / (1.0 - rate) : 0.0;
}

Array embed(const EmbedSizes& s, const Tokens& tokens, const Array& wte, const Array& wpe,
            const Dropout& dropout) {
  Array x;
  for (int64_t b = 0; b < s.sequences; ++b)
    for (int64_t t = 0; t < s.positions; ++t)
      for (int64_t c = 0; c < s.width; ++c)
        x.push_back(
            (wte[tokens[b * s.positions + t] * s.width + c] + wpe[(s.first_position + t) * s.width + c]) *
            dropout_factor(dropout, b, t * s.width + c));
  return x;
}

EmbedGradients embed_backward(const EmbedSizes& s, const Array& dx, const Tokens& tokens,
                              const Dropout& dropout) {
  EmbedGradients d{Array(s.vocabulary * s.width), Array(s.context * s.width)};
  for (int64_t b = 0; b < s.sequences; ++b)
    for (int64_t t = 0; t < s.positions; ++t)
      for (int64_t c = 0; c < s.width; ++c) {
        const int64_t row = b * s.positions + t;
        const double g = dx[row * s.width + c] * dropout_factor(dropout, b, t * s.width + c);
        d.wte[tokens[row] * s.width + c] += g;
        d.wpe[t * s.width + c] += g;
      }
  return d;
}

NormResult add_norm(const NormSizes& s, const Array& x, const Array& delta, const Array& weight,
                    const Array& bias, const Dropout& dropout) {
  NormResult r{x, Array(x.size()), Array(s.rows()), Array(s.rows())};
  for (int64_t row = 0; row < s.rows(); ++row) {
    double* sum = r.sum.data() + row * s.width;
    for (int64_t c = 0; c < s.width && !delta.empty(); ++c)
      sum[c] += delta[row * s.width + c] *
                dropout_factor(dropout, row / s.positions, row % s.positions * s.width + c);
    double mean = 0.0;
    for (int64_t c = 0; c < s.width; ++c) mean += sum[c] / static_cast<double>(s.width);
    double variance = 0.0;
    for (int64_t c = 0; c < s.width; ++c)
      variance += (sum[c] - mean) * (sum[c] - mean) / static_cast<double>(s.width);
    r.mean[row] = mean;
    r.rstd[row] = 1.0 / std::sqrt(variance + 1e-5);
    for (int64_t c = 0; c < s.width; ++c)
      r.y[row * s.width + c] = (sum[c] - mean) * r.rstd[row] * weight[c] + (bias.empty() ? 0.0 : bias[c]);
  }
  return r;
}

NormGradients add_norm_backward(const NormSizes& s, const Array& dy, const Array& sum, const Array& weight,
                                const Array& residual, const Dropout& dropout) {
  const NormResult forward = add_norm(s, sum, {}, weight, {}, {});
  NormGradients d{Array(dy.size()), Array(dy.size()), Array(s.width), Array(s.width)};
  for (int64_t row = 0; row < s.rows(); ++row) {
    const auto normed = [&](int64_t c) {
      return (sum[row * s.width + c] - forward.mean[row]) * forward.rstd[row];
    };
    double mean_gradient = 0.0;
    double mean_product = 0.0;
    for (int64_t c = 0; c < s.width; ++c) {
      const double g = dy[row * s.width + c];
      d.d_weight[c] += g * normed(c);
      d.d_bias[c] += g;
      mean_gradient += g * weight[c] / static_cast<double>(s.width);
      mean_product += g * weight[c] * normed(c) / static_cast<double>(s.width);
    }
    for (int64_t c = 0; c < s.width; ++c) {
      const int64_t i = row * s.width + c;
      d.dx[i] = forward.rstd[row] * (dy[i] * weight[c] - mean_gradient - normed(c) * mean_product) +
                (residual.empty() ? 0.0 : residual[i]);
      d.d_delta[i] = d.dx[i] * dropout_factor(dropout, row / s.positions, row % s.positions * s.width + c);
    }
  }
  return d;
}

double gelu(double x) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(u));
}

double gelu_slope(double x) {
  const double root = std::sqrt(2.0 / std::numbers::pi);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * x * x);
}

Array linear(const LinearSizes& s, const Array& x, const Array& w, const Array& b) {
  Array y(s.rows * s.out);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t o = 0; o < s.out; ++o) {
      double sum = b.empty() ? 0.0 : b[o];
      for (int64_t i = 0; i < s.in; ++i) sum += x[r * s.in + i] * w[o * s.in + i];
      y[r * s.out + o] = sum;
    }
  return y;
}

Array linear_backward_input(const LinearSizes& s, const Array& dy, const Array& w) {
  Array dx(s.rows * s.in);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t o = 0; o < s.out; ++o)
      for (int64_t i = 0; i < s.in; ++i) dx[r * s.in + i] += dy[r * s.out + o] * w[o * s.in + i];
  return dx;
}

Array linear_backward_weight(const LinearSizes& s, const Array& dy, const Array& x) {
  Array dw(s.out * s.in);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t o = 0; o < s.out; ++o)
      for (int64_t i = 0; i < s.in; ++i) dw[o * s.in + i] += dy[r * s.out + o] * x[r * s.in + i];
  return dw;
}

Array column_sums(const LinearSizes& s, const Array& dy) {
  Array db(s.out);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t o = 0; o < s.out; ++o) db[o] += dy[r * s.out + o];
  return db;
}

double classifier_loss(const ClassifierSizes& s, const Array& x, const Array& w, const Tokens& targets) {
  const Array logits = linear({s.rows, s.width, s.padded}, x, w, {});
  double loss = 0.0;
  for (int64_t r = 0; r < s.rows; ++r) {
    const double* row = logits.data() + r * s.padded;
    double sum = 0.0;
    for (int64_t v = 0; v < s.vocabulary; ++v) sum += std::exp(row[v] - row[targets[r]]);
    loss += std::log(sum);
  }
  return loss;
}

ClassifierGradients classifier_backward(const ClassifierSizes& s, const Array& x, const Array& w,
                                        const Tokens& targets, double scale) {
  const LinearSizes product{s.rows, s.width, s.padded};
  Array d = linear(product, x, w, {});
  for (int64_t r = 0; r < s.rows; ++r) {
    double* row = d.data() + r * s.padded;
    const double most = *std::max_element(row, row + s.vocabulary);
    double sum = 0.0;
    for (int64_t v = 0; v < s.vocabulary; ++v) sum += std::exp(row[v] - most);
    for (int64_t v = 0; v < s.padded; ++v)
      row[v] =
          v < s.vocabulary ? scale * (std::exp(row[v] - most) / sum - (v == targets[r] ? 1.0 : 0.0)) : 0.0;
  }
  return {linear_backward_input(product, d, w), linear_backward_weight(product, d, x)};
}

void adamw(AdamWState& state, const Array& g, double clip_scale, const AdamWStep& step) {
  const double beta1 = static_cast<double>(step.beta1);
  const double beta2 = static_cast<double>(step.beta2);
  const double lr = static_cast<double>(step.lr);
  const double t = static_cast<double>(step.step);
  for (size_t i = 0; i < g.size(); ++i) {
    const double gradient = g[i] * clip_scale;
    state.m[i] = beta1 * state.m[i] + (1.0 - beta1) * gradient;
    state.v[i] = beta2 * state.v[i] + (1.0 - beta2) * gradient * gradient;
    const double mean = state.m[i] / (1.0 - std::pow(beta1, t));
    const double deviation = std::sqrt(state.v[i] / (1.0 - std::pow(beta2, t)));
    state.p[i] -= lr * (mean / (deviation + static_cast<double>(step.eps)) +
                        static_cast<double>(step.weight_decay) * state.p[i]);
  }
}

}  // namespace gpt::reference
