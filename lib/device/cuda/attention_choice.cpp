#include "device/cuda/attention_choice.hpp"

#include "device/cuda/cuda_ops.hpp"

namespace gpt {

bool CudaOps::is_fused(FusedAttention::Pass pass, const AttentionCall& call, int64_t sequences,
                       const HeadShape& shape) {
  return fused_ && why_own(call).empty() && fused_->refusal(pass, sequences, shape).empty();
}

std::string CudaOps::why_own_attention(const AttentionShape& of) {
  if (!fused_) return "no other was asked for";
  const HeadShape shape{.positions = of.context, .heads = of.heads, .head_size = of.width / of.heads};
  const std::string_view rule =
      why_own({.type = of.type, .dropout = of.dropout, .head_size = shape.head_size, .addresses = 0});
  if (!rule.empty()) return std::string(rule);
  const std::string& forward = fused_->refusal(FusedAttention::Pass::forward, of.sequences, shape);
  if (!forward.empty()) return "forward: " + forward;
  const std::string& backward = fused_->refusal(FusedAttention::Pass::backward, of.sequences, shape);
  return backward.empty() ? std::string() : "backward: " + backward;
}

}  // namespace gpt
