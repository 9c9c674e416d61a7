#include "model/generator.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "model/model_views.hpp"
#include "model/sampling.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {

struct Generator::Impl {
  struct Cache {
    TensorBuffer keys, values;  // (context, C)
  };

  GptConfig config;
  int64_t vocabulary;
  Layout layout;
  Ops& ops;
  std::unique_ptr<Queue> queue;
  ModelViews weights;
  std::vector<Cache> caches;
  // One sequence of up to context new positions: x, middle (1,n,C) f32; the others as their names say.
  TensorBuffer x, middle, normed, mean, rstd, qkv, attended, branch, expanded_pre, expanded, logits;
  TensorBuffer wide_logits;  // f32, where they are not
  std::vector<float> host_logits;
  std::vector<int32_t> tokens;  // the whole sequence
  int64_t window_start = 0;     // index in `tokens` of position 0
  Sampling sampling;
  uint64_t sequence = 0;

  Impl(const GptConfig& model, Device& device, const FlatParameters& parameters, int64_t tokens_drawn)
      : config(model),
        vocabulary(tokens_drawn),
        layout(model),
        ops(device.ops()),
        queue(device.make_queue()),
        weights(make_views(layout, model, parameters.matrices, parameters.vectors)),
        host_logits(static_cast<size_t>(model.padded_vocabulary())) {
    const DType dtype = parameters.matrices.dtype();
    const int64_t n = model.context, width = model.width;
    for (int64_t layer = 0; layer < model.layers; ++layer)
      caches.push_back({TensorBuffer(device, dtype, {n, width}), TensorBuffer(device, dtype, {n, width})});
    x = TensorBuffer(device, DType::f32, {1, n, width});
    middle = TensorBuffer(device, DType::f32, {1, n, width});
    normed = TensorBuffer(device, dtype, {1, n, width});
    mean = TensorBuffer(device, DType::f32, {n});
    rstd = TensorBuffer(device, DType::f32, {n});
    qkv = TensorBuffer(device, dtype, {n, 3 * width});
    attended = TensorBuffer(device, dtype, {n, width});
    branch = TensorBuffer(device, dtype, {1, n, width});
    expanded_pre = TensorBuffer(device, dtype, {n, 4 * width});
    expanded = TensorBuffer(device, dtype, {n, 4 * width});
    logits = TensorBuffer(device, dtype, {1, model.padded_vocabulary()});
    if (dtype != DType::f32) wide_logits = TensorBuffer(device, DType::f32, {1, model.padded_vocabulary()});
  }

  /// Reads the tokens from `first` on into the cache and leaves the logits after the last in host_logits.
  void read(int64_t first) {
    const int64_t n = static_cast<int64_t>(tokens.size()) - first;
    const int64_t position = first - window_start;
    expects(n >= 1 && position + n <= config.context);
    const auto part = [n](const TensorBuffer& buffer) {
      return buffer->view({buffer->rows(), buffer->columns()}).slice({0, n});
    };
    const auto sequence_part = [&](const TensorBuffer& buffer) {
      return part(buffer).view({1, n, buffer->columns()});
    };
    const Tensor stream = sequence_part(x), mid = sequence_part(middle), norm = sequence_part(normed);
    const Tensor means = mean->slice({0, n}), rstds = rstd->slice({0, n}), added = sequence_part(branch);

    ops.embed(stream, Tensor(tokens.data() + first, DType::i32, {1, n}), weights.embedding, weights.positions,
              position, {}, *queue);
    for (size_t layer = 0; layer < caches.size(); ++layer) {
      const BlockViews& w = weights.blocks[layer];
      ops.add_norm(layer == 0 ? Tensor{} : stream, norm, means, rstds, layer == 0 ? stream : mid,
                   layer == 0 ? Tensor{} : added, w.norm1_weight, w.norm1_bias, {}, *queue);
      ops.linear(part(qkv), {}, part(normed), w.qkv_weight, w.qkv_bias, Activation::none, *queue);
      ops.attention_cached(part(attended), caches[layer].keys, caches[layer].values, part(qkv), position,
                           config.heads, *queue);
      ops.linear(part(branch), {}, part(attended), w.attention_weight, w.attention_bias, Activation::none,
                 *queue);
      ops.add_norm(mid, norm, means, rstds, stream, added, w.norm2_weight, w.norm2_bias, {}, *queue);
      ops.linear(part(expanded), part(expanded_pre), part(normed), w.expand_weight, w.expand_bias,
                 Activation::gelu, *queue);
      ops.linear(part(branch), {}, part(expanded), w.shrink_weight, w.shrink_bias, Activation::none, *queue);
    }
    ops.add_norm(stream, norm, means, rstds, mid, added, weights.norm_weight, weights.norm_bias, {}, *queue);
    ops.linear(logits, {}, part(normed).slice({n - 1, n}), weights.embedding, {}, Activation::none, *queue);
    if (*wide_logits) ops.cast(wide_logits, logits, *queue);
    queue->copy(Tensor(host_logits.data(), DType::f32, {1, config.padded_vocabulary()}),
                *wide_logits ? wide_logits : logits);
    queue->synchronize();
  }
};

Generator::Generator(const GptConfig& config, Device& device, const FlatParameters& parameters,
                     int64_t vocabulary)
    : impl_(std::make_unique<Impl>(config, device, parameters, vocabulary)) {
  expects(vocabulary >= 1 && vocabulary <= config.vocabulary);
}

Generator::~Generator() = default;

void Generator::start(const std::vector<int32_t>& prompt, const Sampling& sampling, uint64_t sequence) {
  expects(!prompt.empty());
  Impl& g = *impl_;
  const auto kept = std::min(static_cast<int64_t>(prompt.size()), g.config.context);
  g.tokens.assign(prompt.end() - kept, prompt.end());
  g.window_start = 0;
  g.sampling = sampling;
  g.sequence = sequence;
  g.read(0);
}

int32_t Generator::next() {
  Impl& g = *impl_;
  const std::span<const float> logits(g.host_logits.data(), static_cast<size_t>(g.vocabulary));
  const uint64_t index = g.tokens.size();
  const int32_t token = sample(logits, g.sampling, g.sequence, index);
  g.tokens.push_back(token);
  const auto length = static_cast<int64_t>(g.tokens.size());
  if (length - g.window_start <= g.config.context) {
    g.read(length - 1);
  } else {
    g.window_start = length - std::max<int64_t>(1, g.config.context / 2);
    g.read(g.window_start);
  }
  return token;
}

}  // namespace gpt
