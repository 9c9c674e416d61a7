#include "model/model_views.hpp"

#include "base/contracts.hpp"

#include <fmt/format.h>
#include <string>

namespace gpt {
namespace {

/// @param flat  elements from `first` on of a flat buffer
Tensor view_of(const Parameter& parameter, Tensor flat, int64_t first) {
  const int64_t begin = parameter.offset - first;
  const Tensor stored = flat.flat({begin, begin + parameter.stored});
  if (parameter.shape.size() == 1) return stored;
  const int64_t columns = parameter.shape.back();
  return stored.view({parameter.stored / columns, columns});
}

}  // namespace

ModelViews make_views(const Layout& layout, const GptConfig& config, Tensor matrices, Tensor vectors) {
  expects(matrices.size() == layout.matrices().size() && vectors.size() == layout.vectors().size());
  const auto view = [&](const std::string& name) {
    const Parameter* const parameter = layout.find(name);
    if (parameter == nullptr) return Tensor{};
    return parameter->is_matrix ? view_of(*parameter, matrices, layout.matrices().begin)
                                : view_of(*parameter, vectors, layout.vectors().begin);
  };
  ModelViews views;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("h.{}.", layer);
    views.blocks.push_back({
        .norm1_weight = view(prefix + "ln_1.weight"),
        .norm1_bias = view(prefix + "ln_1.bias"),
        .qkv_weight = view(prefix + "attn.c_attn.weight"),
        .qkv_bias = view(prefix + "attn.c_attn.bias"),
        .attention_weight = view(prefix + "attn.c_proj.weight"),
        .attention_bias = view(prefix + "attn.c_proj.bias"),
        .norm2_weight = view(prefix + "ln_2.weight"),
        .norm2_bias = view(prefix + "ln_2.bias"),
        .expand_weight = view(prefix + "mlp.c_fc.weight"),
        .expand_bias = view(prefix + "mlp.c_fc.bias"),
        .shrink_weight = view(prefix + "mlp.c_proj.weight"),
        .shrink_bias = view(prefix + "mlp.c_proj.bias"),
    });
  }
  views.norm_weight = view("ln_f.weight");
  views.norm_bias = view("ln_f.bias");
  views.embedding = view("wte.weight");
  views.positions = view("wpe.weight");
  return views;
}

}  // namespace gpt
