#include "model/gpt.hpp"

#include "base/contracts.hpp"
#include "model/activations.hpp"
#include "model/model_views.hpp"

namespace gpt {
namespace {

/// Sites of dropout: a number for each place in the model where elements are dropped.
constexpr uint32_t embedding_site = 0;
constexpr uint32_t probability_site(size_t layer) { return 1 + 3 * static_cast<uint32_t>(layer); }
constexpr uint32_t attention_site(size_t layer) { return 2 + 3 * static_cast<uint32_t>(layer); }
constexpr uint32_t mlp_site(size_t layer) { return 3 + 3 * static_cast<uint32_t>(layer); }

ModelViews views_of_gradients(const Layout& layout, const GptConfig& config, Tensor gradients) {
  if (!gradients) return {};
  return make_views(layout, config, gradients.flat(layout.matrices()), gradients.flat(layout.vectors()));
}

Tensor rows_of(const TensorBuffer& buffer, int64_t count) { return buffer->slice({0, count}); }

}  // namespace

struct Gpt::Impl {
  GptConfig config;
  Layout layout;
  Ops& ops;
  ModelViews weights, gradients;
  Activations activations;

  Impl(const GptConfig& model, Device& device, int64_t max_sequences, const FlatParameters& parameters)
      : config(model),
        layout(model),
        ops(device.ops()),
        weights(make_views(layout, model, parameters.matrices, parameters.vectors)),
        gradients(views_of_gradients(layout, model, parameters.gradients)),
        activations(model, device, max_sequences, parameters.matrices.dtype(),
                    static_cast<bool>(parameters.gradients)) {}

  Dropout dropout(const Batch& batch, const MicroStep& micro, uint32_t site) const {
    return {.rate = config.dropout,
            .seed = micro.dropout_seed,
            .step = micro.step,
            .site = site,
            .first_sequence = batch.first_sequence};
  }

  /// Forward up to the final norm; `drop` gives the Dropout of a site.
  template <class Drop>
  void forward(const Batch& batch, const Drop& drop, SectionListener& listener, Queue& queue) {
    Activations& a = activations;
    const int64_t n = batch.inputs.dim(0);
    const int64_t rows = n * config.context;
    expects(batch.inputs.dim(1) == config.context);
    const Tensor branch = rows_of(a.branch, n);

    listener.before_use(layout.embedding_section());
    ops.embed(rows_of(a.blocks.front().input, n), batch.inputs, weights.embedding, weights.positions, 0,
              drop(embedding_site), queue);
    listener.before_use(layout.vector_section());
    for (size_t layer = 0; layer < a.blocks.size(); ++layer) {
      BlockActivations& block = a.blocks[layer];
      const BlockViews& w = weights.blocks[layer];
      listener.before_use(layout.attention_section(static_cast<int64_t>(layer)));

      const Tensor input = rows_of(block.input, n), normed1 = rows_of(block.normed1, n);
      const Tensor mean1 = rows_of(block.mean1, rows), rstd1 = rows_of(block.rstd1, rows);
      if (layer == 0) {
        ops.add_norm({}, normed1, mean1, rstd1, input, {}, w.norm1_weight, w.norm1_bias, {}, queue);
      } else {
        ops.add_norm(input, normed1, mean1, rstd1, rows_of(a.blocks[layer - 1].middle, n), branch,
                     w.norm1_weight, w.norm1_bias, drop(mlp_site(layer - 1)), queue);
      }
      const Tensor qkv = rows_of(block.qkv, n), attended = rows_of(block.attended, n);
      ops.linear(qkv, {}, normed1, w.qkv_weight, w.qkv_bias, Activation::none, queue);
      ops.attention(attended, rows_of(block.log_sum, n), qkv, config.heads, drop(probability_site(layer)),
                    queue);
      ops.linear(branch, {}, attended, w.attention_weight, w.attention_bias, Activation::none, queue);

      listener.before_use(layout.mlp_section(static_cast<int64_t>(layer)));
      const Tensor normed2 = rows_of(block.normed2, n), expanded = rows_of(block.expanded, n);
      ops.add_norm(rows_of(block.middle, n), normed2, rows_of(block.mean2, rows), rows_of(block.rstd2, rows),
                   input, branch, w.norm2_weight, w.norm2_bias, drop(attention_site(layer)), queue);
      ops.linear(expanded, rows_of(block.expanded_pre, n), normed2, w.expand_weight, w.expand_bias,
                 Activation::gelu, queue);
      ops.linear(branch, {}, expanded, w.shrink_weight, w.shrink_bias, Activation::none, queue);
    }
    ops.add_norm(rows_of(a.output, n), rows_of(a.normed, n), rows_of(a.mean, rows), rows_of(a.rstd, rows),
                 rows_of(a.blocks.back().middle, n), branch, weights.norm_weight, weights.norm_bias,
                 drop(mlp_site(a.blocks.size() - 1)), queue);
  }

  /// Backward from d_normed, the gradient of the final norm's output.
  template <class Drop>
  void backward(const Batch& batch, const Drop& drop, const MicroStep& micro, SectionListener& listener,
                Queue& queue) {
    Activations& a = activations;
    const int64_t n = batch.inputs.dim(0);
    const int64_t rows = n * config.context;
    const Write write = micro.write;
    const Tensor d_residual = rows_of(a.d_residual, n), d_normed = rows_of(a.d_normed, n);
    const Tensor d_qkv = rows_of(a.d_qkv, n), d_attended = rows_of(a.d_attended, n);
    const Tensor d_expanded = rows_of(a.d_expanded, n);
    // Without dropout a branch's gradient is the residual stream's own: no copy of it is needed.
    const bool shared = config.dropout == 0.0F && a.d_branch->dtype() == DType::f32;
    const Tensor d_branch_out = shared ? Tensor{} : rows_of(a.d_branch, n);
    const Tensor d_branch = shared ? d_residual : d_branch_out;

    ops.add_norm_backward(d_residual, d_branch_out, gradients.norm_weight, gradients.norm_bias, d_normed,
                          rows_of(a.output, n), rows_of(a.mean, rows), rows_of(a.rstd, rows),
                          weights.norm_weight, drop(mlp_site(a.blocks.size() - 1)), Write::overwrite, write,
                          queue);
    for (size_t layer = a.blocks.size(); layer-- > 0;) {
      BlockActivations& block = a.blocks[layer];
      const BlockViews& w = weights.blocks[layer];
      const BlockViews& g = gradients.blocks[layer];

      ops.linear_backward_weight(g.shrink_weight, g.shrink_bias, d_branch, rows_of(block.expanded, n), write,
                                 queue);
      ops.linear_backward_input(d_expanded, d_branch, w.shrink_weight, rows_of(block.expanded_pre, n),
                                Activation::gelu, queue);
      ops.linear_backward_weight(g.expand_weight, g.expand_bias, d_expanded, rows_of(block.normed2, n), write,
                                 queue);
      listener.after_gradients(layout.mlp_section(static_cast<int64_t>(layer)));
      ops.linear_backward_input(d_normed, d_expanded, w.expand_weight, {}, Activation::none, queue);
      ops.add_norm_backward(d_residual, d_branch_out, g.norm2_weight, g.norm2_bias, d_normed,
                            rows_of(block.middle, n), rows_of(block.mean2, rows), rows_of(block.rstd2, rows),
                            w.norm2_weight, drop(attention_site(layer)), Write::accumulate, write, queue);

      const Tensor attended = rows_of(block.attended, n);
      ops.linear_backward_weight(g.attention_weight, g.attention_bias, d_branch, attended, write, queue);
      ops.linear_backward_input(d_attended, d_branch, w.attention_weight, {}, Activation::none, queue);
      ops.attention_backward(d_qkv, d_attended, attended, rows_of(block.qkv, n), rows_of(block.log_sum, n),
                             config.heads, drop(probability_site(layer)), queue);
      ops.linear_backward_weight(g.qkv_weight, g.qkv_bias, d_qkv, rows_of(block.normed1, n), write, queue);
      listener.after_gradients(layout.attention_section(static_cast<int64_t>(layer)));
      ops.linear_backward_input(d_normed, d_qkv, w.qkv_weight, {}, Activation::none, queue);
      const bool first = layer == 0;
      ops.add_norm_backward(d_residual, first ? Tensor{} : d_branch_out, g.norm1_weight, g.norm1_bias,
                            d_normed, rows_of(block.input, n), rows_of(block.mean1, rows),
                            rows_of(block.rstd1, rows), w.norm1_weight,
                            first ? Dropout{} : drop(mlp_site(layer - 1)), Write::accumulate, write, queue);
    }
    listener.after_gradients(layout.vector_section());
    ops.embed_backward(gradients.embedding, gradients.positions, d_residual, batch.inputs,
                       drop(embedding_site), write, queue);
    listener.after_gradients(layout.embedding_section());
  }

  Tensor flat_targets(const Batch& batch) const { return batch.targets.view({batch.targets.size()}); }
};

FlatParameters parameters_in(const Layout& layout, Tensor weights, Tensor gradients) {
  return {.matrices = weights.flat(layout.matrices()),
          .vectors = weights.flat(layout.vectors()),
          .gradients = gradients};
}

Gpt::Gpt(const GptConfig& config, Device& device, int64_t max_sequences, const FlatParameters& parameters)
    : impl_(std::make_unique<Impl>(config, device, max_sequences, parameters)) {}

Gpt::~Gpt() = default;

int64_t Gpt::activation_bytes() const { return impl_->activations.bytes; }

void Gpt::train(const Batch& batch, Tensor loss_sum, const MicroStep& micro, SectionListener& listener,
                Queue& queue) {
  Impl& model = *impl_;
  const auto drop = [&](uint32_t site) { return model.dropout(batch, micro, site); };
  model.forward(batch, drop, listener, queue);
  const int64_t n = batch.inputs.dim(0);
  const int64_t rows = n * model.config.context;
  // The classifier writes the embedding's gradient first; embed_backward adds to it.
  model.ops.classifier(loss_sum, rows_of(model.activations.d_normed, n).view({rows, model.config.width}),
                       model.gradients.embedding,
                       rows_of(model.activations.normed, n).view({rows, model.config.width}),
                       model.weights.embedding, model.flat_targets(batch), model.config.vocabulary,
                       micro.scale, micro.write, queue);
  model.backward(batch, drop, micro, listener, queue);
}

void Gpt::evaluate(const Batch& batch, Tensor loss_sum, SectionListener& listener, Queue& queue) {
  Impl& model = *impl_;
  model.forward(
      batch, [](uint32_t) { return Dropout{}; }, listener, queue);
  const int64_t rows = batch.inputs.size();
  model.ops.classifier(
      loss_sum, {}, {},
      rows_of(model.activations.normed, batch.inputs.dim(0)).view({rows, model.config.width}),
      model.weights.embedding, model.flat_targets(batch), model.config.vocabulary, 1.0F, Write::overwrite,
      queue);
}

void Gpt::logits(Tensor out, const Batch& batch, Queue& queue) {
  Impl& model = *impl_;
  SectionListener nobody;
  model.forward(
      batch, [](uint32_t) { return Dropout{}; }, nobody, queue);
  model.ops.linear(out, {}, rows_of(model.activations.normed, batch.inputs.dim(0)), model.weights.embedding,
                   {}, Activation::none, queue);
}

}  // namespace gpt
