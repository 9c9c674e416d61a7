#pragma once

#include "device/cuda/attention_choice.hpp"
#include "device/cuda/fused_attention.hpp"
#include "device/cuda/matrix_products.hpp"
#include "device/cuda_device.hpp"
#include "device/ops.hpp"

#include <memory>
#include <string>
#include <utility>

namespace gpt {

/// Ops on a GPU: matrix products by cuBLASLt, everything else by kernels. A call starts work in the queue's
/// stream and returns; nothing is allocated once a queue has seen its largest shapes. For one calling thread
/// at a time; queues may differ.
///
/// All sums are taken in an order that follows from shapes alone.
class CudaOps final : public Ops {
public:
  /// @param fused  takes the attention that it can; may be null
  CudaOps(const CudaOptions& options, std::unique_ptr<FusedAttention> fused)
      : fused_gelu_(options.fused_gelu),
        attention_scratch_(options.attention_scratch),
        fused_(std::move(fused)),
        products_(options.tf32) {}

  void embed(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, int64_t first_position, const Dropout& dropout,
             Queue&) override;
  void embed_backward(Tensor d_wte, Tensor d_wpe, Tensor dx, Tensor tokens, const Dropout& dropout,
                      Write wpe_write, Queue&) override;

  void add_norm(Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor delta, Tensor weight,
                Tensor bias, const Dropout& dropout, Queue&) override;
  void add_norm_backward(Tensor dx, Tensor d_delta, Tensor d_weight, Tensor d_bias, Tensor dy, Tensor sum,
                         Tensor mean, Tensor rstd, Tensor weight, const Dropout& dropout, Write dx_write,
                         Write write, Queue&) override;

  void linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation, Queue&) override;
  void activate(Tensor y, Tensor pre, Activation activation, Queue&) override;
  void linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                             Queue&) override;
  void linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue&) override;

  void attention(Tensor y, Tensor log_sum, Tensor qkv, int64_t heads, const Dropout& dropout,
                 Queue&) override;
  void attention_backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, int64_t heads,
                          const Dropout& dropout, Queue&) override;
  void attention_cached(Tensor y, Tensor keys, Tensor values, Tensor qkv, int64_t position, int64_t heads,
                        Queue&) override;

  void classifier(Tensor loss_sum, Tensor dx, Tensor dw, Tensor x, Tensor w, Tensor targets,
                  int64_t vocabulary, float scale, Write write, Queue&) override;

  void add(Tensor sum, Tensor x, Queue&) override;
  void sum_in_order(Tensor sum, Tensor terms, Queue&) override;
  void square_sums(Tensor sums, Tensor g, Queue&) override;
  void clip_scale(Tensor scalars, Tensor sums, const StepLimits& limits, Queue&) override;
  void adamw(Tensor p, Tensor half, Tensor m, Tensor v, Tensor g, Tensor scalars, const AdamWStep& step,
             Queue&) override;
  void round(Tensor half, Tensor p, const WeightRounding& rounding, Queue&) override;

  void cast(Tensor dst, Tensor src, Queue&) override;

  /// See gpt::why_own_attention.
  std::string why_own_attention(const AttentionShape& shape);

private:
  bool is_fused(FusedAttention::Pass pass, const AttentionCall& call, int64_t sequences,
                const HeadShape& shape);

  bool fused_gelu_;
  int64_t attention_scratch_;
  std::unique_ptr<FusedAttention> fused_;
  MatrixProducts products_;
};

}  // namespace gpt
