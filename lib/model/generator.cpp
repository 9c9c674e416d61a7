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
    TensorBuffer keys, values;  // (sequences, H, context, C/H)
  };

  GptConfig config;
  int64_t vocabulary;
  Layout layout;
  Ops& ops;
  std::unique_ptr<Queue> queue;
  ModelViews weights;
  std::vector<Cache> caches;
  // Rows for one whole sequence or for the newest position of all: x, middle f32; the others as their names
  // say.
  TensorBuffer x, middle, normed, mean, rstd, qkv, attended, branch, expanded_pre, expanded;
  TensorBuffer logits;  // f32
  TensorBuffer inputs;  // (rows) i32: `fresh` on the device
  std::vector<float> host_logits;
  std::vector<std::vector<int32_t>> tokens;  // whole sequences, all of one length
  std::vector<int32_t> fresh;                // those that are being read, sequence by sequence
  std::vector<int32_t> drawn;
  int64_t window_start = 0;  // index in `tokens` of position 0
  int64_t read_tokens = 0;   // so many of each sequence are in the cache
  Sampling sampling;
  uint64_t first_number = 0;

  Impl(const GptConfig& model, Device& device, const FlatParameters& parameters, int64_t tokens_drawn,
       int64_t sequences)
      : config(model),
        vocabulary(tokens_drawn),
        layout(model),
        ops(device.ops()),
        queue(device.make_queue()),
        weights(make_views(layout, model, parameters.matrices, parameters.vectors)),
        host_logits(static_cast<size_t>(sequences * model.padded_vocabulary())) {
    const DType dtype = parameters.matrices.dtype();
    const int64_t width = model.width, rows = std::max(model.context, sequences);
    const auto cache = [&] {
      return TensorBuffer(device, dtype, {sequences, model.heads, model.context, width / model.heads});
    };
    for (int64_t layer = 0; layer < model.layers; ++layer)
      caches.push_back({.keys = cache(), .values = cache()});
    x = TensorBuffer(device, DType::f32, {rows, width});
    middle = TensorBuffer(device, DType::f32, {rows, width});
    normed = TensorBuffer(device, dtype, {rows, width});
    mean = TensorBuffer(device, DType::f32, {rows});
    rstd = TensorBuffer(device, DType::f32, {rows});
    qkv = TensorBuffer(device, dtype, {rows, 3 * width});
    attended = TensorBuffer(device, dtype, {rows, width});
    branch = TensorBuffer(device, dtype, {rows, width});
    expanded_pre = TensorBuffer(device, dtype, {rows, 4 * width});
    expanded = TensorBuffer(device, dtype, {rows, 4 * width});
    logits = TensorBuffer(device, DType::f32, {sequences, model.padded_vocabulary()});
    inputs = TensorBuffer(device, DType::i32, {rows});
  }

  int64_t sequences() const { return std::ssize(tokens); }
  int64_t length() const { return std::ssize(tokens.front()); }

  /// Reads the tokens from `first` on of the sequences [which) into the cache, and leaves the logits after
  /// the last in their rows of `logits`. More than one token only of one sequence.
  void read(Range which, int64_t first) {
    const int64_t n = length() - first, count = which.size(), rows = count * n;
    const int64_t position = first - window_start;
    expects(n >= 1 && position + n <= config.context && (n == 1 || count == 1));
    queue->synchronize();  // what was read before may still be on its way out of `fresh`
    fresh.clear();
    for (int64_t s = which.begin; s < which.end; ++s) {
      const auto& sequence = tokens[static_cast<size_t>(s)];
      fresh.insert(fresh.end(), sequence.begin() + first, sequence.end());
    }
    const Tensor device_tokens = inputs->slice({0, rows});
    queue->copy(device_tokens, Tensor(fresh.data(), DType::i32, {rows}));
    const auto part = [&](const TensorBuffer& buffer) {
      return buffer->slice({0, rows}).view({count, n, buffer->columns()});
    };
    const Tensor stream = part(x), mid = part(middle), norm = part(normed), added = part(branch);
    const Tensor means = mean->slice({0, rows}), rstds = rstd->slice({0, rows});

    ops.embed(stream, device_tokens.view({count, n}), weights.embedding, weights.positions, position, {},
              *queue);
    for (size_t layer = 0; layer < caches.size(); ++layer) {
      const BlockViews& w = weights.blocks[layer];
      ops.add_norm(layer == 0 ? Tensor{} : stream, norm, means, rstds, layer == 0 ? stream : mid,
                   layer == 0 ? Tensor{} : added, w.norm1_weight, w.norm1_bias, {}, *queue);
      ops.linear(part(qkv), {}, norm, w.qkv_weight, w.qkv_bias, Activation::none, *queue);
      ops.attention_cached(part(attended), caches[layer].keys->slice(which),
                           caches[layer].values->slice(which), part(qkv), position, config.heads, *queue);
      ops.linear(added, {}, part(attended), w.attention_weight, w.attention_bias, Activation::none, *queue);
      ops.add_norm(mid, norm, means, rstds, stream, added, w.norm2_weight, w.norm2_bias, {}, *queue);
      ops.linear(part(expanded), part(expanded_pre), norm, w.expand_weight, w.expand_bias, Activation::gelu,
                 *queue);
      ops.linear(added, {}, part(expanded), w.shrink_weight, w.shrink_bias, Activation::none, *queue);
    }
    ops.add_norm(stream, norm, means, rstds, mid, added, weights.norm_weight, weights.norm_bias, {}, *queue);
    const Tensor last = normed->slice({rows - count, rows});
    ops.linear(logits->slice(which), {}, last, weights.embedding, {}, Activation::none, *queue);
  }

  /// All sequences begin with what was read of the first one.
  void share_first() {
    for (int64_t s = 1; s < sequences(); ++s) {
      for (const Cache& cache : caches)
        for (const TensorBuffer* part : {&cache.keys, &cache.values})
          queue->copy((*part)->slice({s, s + 1}), (*part)->slice({0, 1}));
      queue->copy(logits->slice({s, s + 1}), logits->slice({0, 1}));
    }
  }

  /// Makes the logits those after the last token of every sequence.
  void catch_up() {
    if (read_tokens == length()) return;
    if (length() - window_start <= config.context) {
      read({0, sequences()}, read_tokens);
    } else {
      window_start = length() - std::max<int64_t>(1, config.context / 2);
      for (int64_t s = 0; s < sequences(); ++s) read({s, s + 1}, window_start);
    }
    read_tokens = length();
  }
};

Generator::Generator(const GptConfig& config, Device& device, const FlatParameters& parameters,
                     int64_t vocabulary, int64_t sequences)
    : impl_(std::make_unique<Impl>(config, device, parameters, vocabulary, sequences)) {
  expects(vocabulary >= 1 && vocabulary <= config.vocabulary);
  expects(sequences >= 1 && sequences <= most_sequences);
}

Generator::~Generator() = default;

void Generator::start(const std::vector<int32_t>& prompt, const Sampling& sampling, uint64_t first,
                      int64_t sequences) {
  Impl& g = *impl_;
  expects(!prompt.empty() && sequences >= 1 && sequences <= g.logits->rows());
  const auto kept = std::min(std::ssize(prompt), g.config.context);
  g.tokens.assign(static_cast<size_t>(sequences), {prompt.end() - kept, prompt.end()});
  g.window_start = 0;
  g.sampling = sampling;
  g.first_number = first;
  g.read({0, 1}, 0);
  g.share_first();
  g.read_tokens = kept;
}

Tensor Generator::logits() {
  Impl& g = *impl_;
  g.catch_up();
  const Tensor host(g.host_logits.data(), DType::f32, {g.sequences(), g.config.padded_vocabulary()});
  g.queue->copy(host, g.logits->slice({0, g.sequences()}));
  g.queue->synchronize();
  return host;
}

std::span<const int32_t> Generator::next() {
  Impl& g = *impl_;
  const Tensor logits = this->logits();
  const auto index = static_cast<uint64_t>(g.length());
  g.drawn.clear();
  for (int64_t s = 0; s < g.sequences(); ++s) {
    const float* row = logits.data<float>() + s * logits.columns();
    g.drawn.push_back(sample({row, static_cast<size_t>(g.vocabulary)}, g.sampling,
                             g.first_number + static_cast<uint64_t>(s), index));
    g.tokens[static_cast<size_t>(s)].push_back(g.drawn.back());
  }
  return g.drawn;
}

}  // namespace gpt
