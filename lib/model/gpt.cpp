#include "model/gpt.hpp"

#include "base/error.hpp"
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

Tensor rows_of(const Tensor& tensor, int64_t count) { return tensor.slice({0, count}); }

/// One batch on its way through the model.
struct Pass {
  int64_t sequences, rows;
  Dropout dropout;  ///< of all sites
  Queue& queue;

  Pass(const Batch& batch, const Dropout& dropped, Queue& order)
      : sequences(batch.inputs.dim(0)), rows(batch.inputs.size()), dropout(dropped), queue(order) {}

  Dropout drop(uint32_t site) const {
    Dropout here = dropout;
    here.site = site;
    return here;
  }
};

}  // namespace

struct Gpt::Impl {
  GptConfig config;
  Layout layout;
  Ops& ops;
  Recompute recompute;
  int64_t max_sequences;
  ModelViews weights, gradients;
  Activations activations;

  Impl(const GptConfig& model, Device& device, int64_t most_sequences, const FlatParameters& parameters,
       Recompute repeated)
      : config(model),
        layout(model),
        ops(device.ops()),
        recompute(repeated),
        max_sequences(most_sequences),
        weights(make_views(layout, model, parameters.matrices, parameters.vectors)),
        gradients(views_of_gradients(layout, model, parameters.gradients)),
        activations(model, device, max_sequences, parameters.matrices.dtype(), recompute,
                    static_cast<bool>(parameters.gradients)) {}

  /// Always on, since release builds would read and write beyond activations otherwise.
  void check_shape(const Batch& batch) const {
    for (const Tensor& tokens : {batch.inputs, batch.targets})
      validate(
          tokens.rank() == 2 && tokens.dim(0) >= 1 && tokens.dim(0) <= max_sequences &&
              tokens.dim(0) == batch.inputs.dim(0) && tokens.dim(1) == config.context,
          ExitCode::failed,
          "a batch of {} tokens in rows of {}: this model takes 1 to {} sequences of {} tokens, inputs and "
          "targets alike",
          tokens.size(), tokens.rank() == 0 ? 0 : tokens.columns(), max_sequences, config.context);
  }

  /// The norm before a block's attention, of its input.
  void norm_input(size_t layer, const Pass& pass) {
    const BlockActivations& block = activations.blocks[layer];
    const BlockViews& w = weights.blocks[layer];
    ops.add_norm({}, rows_of(block.normed1, pass.sequences), rows_of(block.mean1, pass.rows),
                 rows_of(block.rstd1, pass.rows), rows_of(block.input, pass.sequences), {}, w.norm1_weight,
                 w.norm1_bias, {}, pass.queue);
  }

  /// A block's input, with what the block before adds to it, and its norm.
  void enter_block(size_t layer, const Pass& pass) {
    if (layer == 0) return norm_input(layer, pass);
    const int64_t n = pass.sequences;
    const BlockActivations& block = activations.blocks[layer];
    const BlockViews& w = weights.blocks[layer];
    ops.add_norm(rows_of(block.input, n), rows_of(block.normed1, n), rows_of(block.mean1, pass.rows),
                 rows_of(block.rstd1, pass.rows), rows_of(activations.blocks[layer - 1].middle, n),
                 rows_of(activations.branch, n), w.norm1_weight, w.norm1_bias, pass.drop(mlp_site(layer - 1)),
                 pass.queue);
  }

  void attend(size_t layer, const Pass& pass) {
    const int64_t n = pass.sequences;
    const BlockActivations& block = activations.blocks[layer];
    ops.attention(rows_of(block.attended, n), rows_of(block.log_sum, n), rows_of(block.qkv, n), config.heads,
                  pass.drop(probability_site(layer)), pass.queue);
  }

  /// From the norm of a block's input to what its attention adds.
  void attention_branch(size_t layer, const Pass& pass) {
    const int64_t n = pass.sequences;
    const BlockActivations& block = activations.blocks[layer];
    const BlockViews& w = weights.blocks[layer];
    ops.linear(rows_of(block.qkv, n), {}, rows_of(block.normed1, n), w.qkv_weight, w.qkv_bias,
               Activation::none, pass.queue);
    attend(layer, pass);
    ops.linear(rows_of(activations.branch, n), {}, rows_of(block.attended, n), w.attention_weight,
               w.attention_bias, Activation::none, pass.queue);
  }

  /// From what attention adds to the activation of the MLP.
  void expand(size_t layer, const Pass& pass) {
    const int64_t n = pass.sequences;
    const BlockActivations& block = activations.blocks[layer];
    const BlockViews& w = weights.blocks[layer];
    ops.add_norm(rows_of(block.middle, n), rows_of(block.normed2, n), rows_of(block.mean2, pass.rows),
                 rows_of(block.rstd2, pass.rows), rows_of(block.input, n), rows_of(activations.branch, n),
                 w.norm2_weight, w.norm2_bias, pass.drop(attention_site(layer)), pass.queue);
    ops.linear(rows_of(block.expanded, n), rows_of(block.expanded_pre, n), rows_of(block.normed2, n),
               w.expand_weight, w.expand_bias, Activation::gelu, pass.queue);
  }

  /// Forward up to the final norm.
  void forward(const Tensor& tokens, const Pass& pass, SectionListener& listener) {
    Activations& a = activations;
    const int64_t n = pass.sequences;
    const Tensor branch = rows_of(a.branch, n);

    listener.before_use(layout.embedding_section());
    ops.embed(rows_of(a.blocks.front().input, n), tokens, weights.embedding, weights.positions, 0,
              pass.drop(embedding_site), pass.queue);
    listener.before_use(layout.vector_section());
    for (size_t layer = 0; layer < a.blocks.size(); ++layer) {
      listener.before_use(layout.attention_section(static_cast<int64_t>(layer)));
      enter_block(layer, pass);
      attention_branch(layer, pass);
      listener.before_use(layout.mlp_section(static_cast<int64_t>(layer)));
      expand(layer, pass);
      ops.linear(branch, {}, rows_of(a.blocks[layer].expanded, n), weights.blocks[layer].shrink_weight,
                 weights.blocks[layer].shrink_bias, Activation::none, pass.queue);
    }
    ops.add_norm(rows_of(a.output, n), rows_of(a.normed, n), rows_of(a.mean, pass.rows),
                 rows_of(a.rstd, pass.rows), rows_of(a.blocks.back().middle, n), branch, weights.norm_weight,
                 weights.norm_bias, pass.drop(mlp_site(a.blocks.size() - 1)), pass.queue);
  }

  /// What backward of a block reads and forward has not kept.
  void recompute_block(size_t layer, const Pass& pass) {
    // What the last block computed is still there.
    if (recompute == Recompute::none || layer + 1 == activations.blocks.size()) return;
    norm_input(layer, pass);
    if (recompute == Recompute::block) {
      attention_branch(layer, pass);
      return expand(layer, pass);
    }
    const int64_t n = pass.sequences;
    const BlockActivations& block = activations.blocks[layer];
    const BlockViews& w = weights.blocks[layer];
    attend(layer, pass);
    ops.add_norm({}, rows_of(block.normed2, n), rows_of(block.mean2, pass.rows),
                 rows_of(block.rstd2, pass.rows), rows_of(block.middle, n), {}, w.norm2_weight, w.norm2_bias,
                 {}, pass.queue);
    ops.activate(rows_of(block.expanded, n), rows_of(block.expanded_pre, n), Activation::gelu, pass.queue);
  }

  /// Backward from d_normed, the gradient of the final norm's output.
  void backward(const Tensor& tokens, const Pass& pass, Write write, SectionListener& listener) {
    Activations& a = activations;
    const int64_t n = pass.sequences, rows = pass.rows;
    Queue& queue = pass.queue;
    const Tensor d_residual = rows_of(a.d_residual, n), d_normed = rows_of(a.d_normed, n);
    const Tensor d_qkv = rows_of(a.d_qkv, n), d_attended = rows_of(a.d_attended, n);
    const Tensor d_expanded = rows_of(a.d_expanded, n);
    // Without dropout a branch's gradient is the residual stream's own: no copy of it is needed.
    const bool shared = config.dropout == 0.0F && a.d_branch.dtype() == DType::f32;
    const Tensor d_branch_out = shared ? Tensor{} : rows_of(a.d_branch, n);
    const Tensor d_branch = shared ? d_residual : d_branch_out;

    ops.add_norm_backward(d_residual, d_branch_out, gradients.norm_weight, gradients.norm_bias, d_normed,
                          rows_of(a.output, n), rows_of(a.mean, rows), rows_of(a.rstd, rows),
                          weights.norm_weight, pass.drop(mlp_site(a.blocks.size() - 1)), Write::overwrite,
                          write, queue);
    for (size_t layer = a.blocks.size(); layer-- > 0;) {
      recompute_block(layer, pass);
      const BlockActivations& block = a.blocks[layer];
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
                            w.norm2_weight, pass.drop(attention_site(layer)), Write::accumulate, write,
                            queue);

      const Tensor attended = rows_of(block.attended, n);
      ops.linear_backward_weight(g.attention_weight, g.attention_bias, d_branch, attended, write, queue);
      ops.linear_backward_input(d_attended, d_branch, w.attention_weight, {}, Activation::none, queue);
      ops.attention_backward(d_qkv, d_attended, attended, rows_of(block.qkv, n), rows_of(block.log_sum, n),
                             config.heads, pass.drop(probability_site(layer)), queue);
      ops.linear_backward_weight(g.qkv_weight, g.qkv_bias, d_qkv, rows_of(block.normed1, n), write, queue);
      listener.after_gradients(layout.attention_section(static_cast<int64_t>(layer)));
      ops.linear_backward_input(d_normed, d_qkv, w.qkv_weight, {}, Activation::none, queue);
      const bool first = layer == 0;
      ops.add_norm_backward(
          d_residual, first ? Tensor{} : d_branch_out, g.norm1_weight, g.norm1_bias, d_normed,
          rows_of(block.input, n), rows_of(block.mean1, rows), rows_of(block.rstd1, rows), w.norm1_weight,
          first ? Dropout{} : pass.drop(mlp_site(layer - 1)), Write::accumulate, write, queue);
    }
    listener.after_gradients(layout.vector_section());
    ops.embed_backward(gradients.embedding, gradients.positions, d_residual, tokens,
                       pass.drop(embedding_site), write, queue);
    listener.after_gradients(layout.embedding_section());
  }

  /// (rows, width) of the batch.
  Tensor matrix_of(const Tensor& wide, const Pass& pass) const {
    return rows_of(wide, pass.sequences).view({pass.rows, config.width});
  }

  Tensor flat_targets(const Batch& batch) const { return batch.targets.view({batch.targets.size()}); }
};

FlatParameters parameters_in(const Layout& layout, Tensor weights, Tensor gradients) {
  return {.matrices = weights.flat(layout.matrices()),
          .vectors = weights.flat(layout.vectors()),
          .gradients = gradients};
}

Gpt::Gpt(const GptConfig& config, Device& device, int64_t max_sequences, const FlatParameters& parameters,
         Recompute recompute)
    : impl_(std::make_unique<Impl>(config, device, max_sequences, parameters, recompute)) {}

Gpt::~Gpt() = default;

int64_t Gpt::activation_bytes() const { return impl_->activations.bytes(); }

void Gpt::train(const Batch& batch, Tensor loss_sum, const MicroStep& micro, SectionListener& listener,
                Queue& queue) {
  Impl& model = *impl_;
  model.check_shape(batch);
  const Pass pass(batch,
                  {.rate = model.config.dropout,
                   .seed = micro.dropout_seed,
                   .step = micro.step,
                   .first_sequence = batch.first_sequence},
                  queue);
  model.forward(batch.inputs, pass, listener);
  // The classifier writes the embedding's gradient first; embed_backward adds to it.
  model.ops.classifier(loss_sum, model.matrix_of(model.activations.d_normed, pass), model.gradients.embedding,
                       model.matrix_of(model.activations.normed, pass), model.weights.embedding,
                       model.flat_targets(batch), model.config.vocabulary, micro.scale, micro.write, queue);
  model.backward(batch.inputs, pass, micro.write, listener);
}

void Gpt::evaluate(const Batch& batch, Tensor loss_sum, SectionListener& listener, Queue& queue) {
  Impl& model = *impl_;
  model.check_shape(batch);
  const Pass pass(batch, {}, queue);
  model.forward(batch.inputs, pass, listener);
  model.ops.classifier(loss_sum, {}, {}, model.matrix_of(model.activations.normed, pass),
                       model.weights.embedding, model.flat_targets(batch), model.config.vocabulary, 1.0F,
                       Write::overwrite, queue);
}

void Gpt::logits(Tensor out, const Batch& batch, Queue& queue) {
  Impl& model = *impl_;
  model.check_shape(batch);
  const Pass pass(batch, {}, queue);
  SectionListener nobody;
  model.forward(batch.inputs, pass, nobody);
  model.ops.linear(out, {}, rows_of(model.activations.normed, pass.sequences), model.weights.embedding, {},
                   Activation::none, queue);
}

}  // namespace gpt
