#pragma once

#include "device/cpu/matrix_products.hpp"
#include "device/cpu/thread_scratch.hpp"
#include "device/ops.hpp"

#include <initializer_list>
#include <vector>

namespace gpt {

/// Ops on the CPU: matrix products of many rows by oneDNN, everything else by kernels written once with
/// Highway and compiled for several instruction sets. Work is done when a call returns. For one calling
/// thread at a time.
///
/// Except for the matrix products, results do not depend on the number of threads; sums over rows go through
/// fixed blocks of rows that are added in order.
class CpuOps : public Ops {
public:
  CpuOps(int threads, Allocator& allocator)
      : threads_(threads),
        scratch_(allocator, threads),
        partials_(allocator, 1),
        logits_(allocator, 1),
        products_(allocator, threads) {}

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

private:
  void linear_of_few_rows(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, const LinearShape& shape);

  int threads_;
  ThreadScratch scratch_;
  ThreadScratch partials_;  ///< one area: parameter gradients of blocks of rows; few rows, widened
  ThreadScratch logits_;    ///< one area: a tile of the classifier
  std::vector<double> losses_;
  MatrixProducts products_;
};

/// Activations and matrix weights of one operation have one type: f32 or bf16.
void expect_activations(std::initializer_list<Tensor> tensors);

/// @throws Error unless every tensor that is there is f32
void require_f32(const char* operation, std::initializer_list<Tensor> tensors);

}  // namespace gpt
