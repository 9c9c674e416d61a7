#include "oracle/reference_model.hpp"

#include <fmt/format.h>
#include <iterator>
#include <string>

namespace gpt::reference {
namespace {

/// Where the parts of one forward pass find their weights and masks.
class Forward {
public:
  Forward(const GptConfig& config, const Layout& layout, const Array& weights, int64_t sequences,
          const Dropout& dropout)
      : config_(config), layout_(layout), weights_(weights), sequences_(sequences), dropout_(dropout) {}

  Array embedded(const Tokens& tokens) const {
    const EmbedSizes sizes{sequences_,         config_.context, config_.width,
                           config_.vocabulary, config_.context, 0};
    return embed(sizes, tokens, named("wte.weight"), named("wpe.weight"), drop(0));
  }

  /// x with what is added to it, and the norm of that.
  NormResult normed(const std::string& name, const Array& x, const Array& delta, int64_t site) const {
    return add_norm({sequences_, config_.context, config_.width}, x, delta, named(name + ".weight"),
                    named(name + ".bias"), drop(site));
  }

  Array product(const std::string& name, const Array& x, int64_t in, int64_t out) const {
    return linear({rows(), in, out}, x, named(name + ".weight"), named(name + ".bias"));
  }

  Array attended(const Array& qkv, int64_t site) const {
    return attention({sequences_, config_.context, config_.heads, config_.width / config_.heads}, qkv,
                     drop(site))
        .y;
  }

  double loss(const Array& x, const Tokens& targets) const {
    return classifier_loss({rows(), config_.width, config_.vocabulary, config_.vocabulary}, x,
                           named("wte.weight"), targets);
  }

private:
  int64_t rows() const { return sequences_ * config_.context; }

  /// Empty where the model has no such parameter: a bias.
  Array named(const std::string& name) const {
    const Parameter* const parameter = layout_.find(name);
    if (parameter == nullptr) return {};
    const auto first = weights_.begin() + parameter->offset;
    return {first, first + parameter->size()};
  }

  Dropout drop(int64_t site) const {
    Dropout here = dropout_;
    here.site = static_cast<uint32_t>(site);
    return here;
  }

  const GptConfig& config_;
  const Layout& layout_;
  const Array& weights_;
  int64_t sequences_;
  Dropout dropout_;
};

}  // namespace

double model_loss(const GptConfig& config, const Layout& layout, const Array& weights, const Tokens& inputs,
                  const Tokens& targets, const Dropout& dropout) {
  const int64_t width = config.width;
  const Forward forward(config, layout, weights, std::ssize(inputs) / config.context, dropout);
  Array stream = forward.embedded(inputs), branch;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("h.{}", layer);
    const NormResult first = forward.normed(block + ".ln_1", stream, branch, 3 * layer);
    const Array qkv = forward.product(block + ".attn.c_attn", first.y, width, 3 * width);
    branch = forward.product(block + ".attn.c_proj", forward.attended(qkv, 1 + 3 * layer), width, width);
    const NormResult second = forward.normed(block + ".ln_2", first.sum, branch, 2 + 3 * layer);
    Array expanded = forward.product(block + ".mlp.c_fc", second.y, width, 4 * width);
    for (double& value : expanded) value = gelu(value);
    branch = forward.product(block + ".mlp.c_proj", expanded, 4 * width, width);
    stream = second.sum;
  }
  return forward.loss(forward.normed("ln_f", stream, branch, 3 * config.layers).y, targets);
}

}  // namespace gpt::reference
