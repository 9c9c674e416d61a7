#pragma once

#include "device/queue.hpp"
#include "device/tensor.hpp"
#include "device/weight_rounding.hpp"

#include <cstdint>
#include <limits>

namespace gpt {

enum class Activation { none, gelu };

/// Up to so many rows, Ops::linear gives a row the same bits whatever the others are, and however many.
inline constexpr int64_t few_rows = 8;

/// What an operation does to a gradient that it produces.
enum class Write { overwrite, accumulate };

/// Which elements to drop: a pure function of (seed, step, site, sequence, position), so that neither the
/// rank count nor the micro-batch changes it. An element survives when its 32 random bits are >= rate·2³²,
/// and is scaled by 1/(1−rate). Bits: Philox with key `seed` and counter {element/4, sequence, site, step},
/// word element%4; `element` counts inside the sequence's part of the tensor.
struct Dropout {
  float rate = 0.0F;
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;           ///< which use of dropout in the model
  int64_t first_sequence = 0;  ///< index in the global batch of the tensor's first sequence
};

/// Scalars that a step's operations pass on without the host: one f64 tensor of shape (StepScalar::count).
/// Those before own_loss are summed over the ranks: the loss, and votes, of how many ranks say so. own_loss
/// is this rank's part of loss_sum, own_squares the sum of squares of the vectors in its gradients.
enum class StepScalar : int {
  loss_sum,
  stop_votes,
  save_votes,
  due_votes,
  own_loss,
  own_squares,
  grad_norm,
  clip_scale,
  accepted,
  count
};

/// What a step must keep to for the optimizer to take it.
struct StepLimits {
  double clip = 0.0;  ///< gradients are scaled to this norm where theirs is larger; 0: never
  double loss_sum = std::numeric_limits<double>::infinity();
  double grad_norm = std::numeric_limits<double>::infinity();
};

struct AdamWStep {
  float lr = 0.0F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float eps = 1e-8F;
  float weight_decay = 0.0F;
  int64_t step = 1;  ///< from 1; bias correction is 1 − betaᵗ
  WeightRounding rounding = {};
};

/// The mathematics of training, one backend each. Shapes: B sequences, T positions, C width, H heads, V
/// vocabulary, rows = B·T. Activations and matrix weights are f32 or bf16 (all the same); norm parameters,
/// biases, statistics and gradients of parameters are f32. Results never depend on timing. Sizes and index
/// ranges are the caller's duty; a backend that lacks a dtype throws Error.
class Ops {
public:
  virtual ~Ops() = default;

  /// x[b,t] = wte[tokens[b,t]] + wpe[first_position + t], then dropout.
  /// x (B,T,C) f32; tokens (B,T) i32; wte (V,C); wpe (context,C)
  virtual void embed(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, int64_t first_position,
                     const Dropout& dropout, Queue&) = 0;

  /// d_wte[tokens] += dropout'(dx), always added, in a fixed order; d_wpe as `wpe_write` says (all its rows).
  /// dx (B,T,C) f32 is scratch afterwards
  virtual void embed_backward(Tensor d_wte, Tensor d_wpe, Tensor dx, Tensor tokens, const Dropout& dropout,
                              Write wpe_write, Queue&) = 0;

  /// sum = x + dropout(delta); y = (sum − mean)·rstd·weight + bias (Ba et al. 2016, eq. 4; epsilon 1e-5).
  /// sum, x (B,T,C) f32, may be the same; delta (B,T,C) or empty: then sum is not written and x is normed;
  /// y (B,T,C); mean, rstd (B·T) f32; weight (C) f32; bias (C) f32 or empty
  virtual void add_norm(Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor delta, Tensor weight,
                        Tensor bias, const Dropout& dropout, Queue&) = 0;

  /// Backward of add_norm. dx is the gradient of `sum`: += or = the norm's part, as `dx_write` says
  /// (accumulate: it already holds what the residual stream brings). d_delta, where not empty, becomes
  /// dropout'(dx), the gradient of the branch whose output was added here. d_weight, d_bias as `write` says.
  virtual void add_norm_backward(Tensor dx, Tensor d_delta, Tensor d_weight, Tensor d_bias, Tensor dy,
                                 Tensor sum, Tensor mean, Tensor rstd, Tensor weight, const Dropout& dropout,
                                 Write dx_write, Write write, Queue&) = 0;

  /// pre = x·Wᵀ + b; y = activation(pre); gelu is the tanh form (Hendrycks & Gimpel 2016, sec. 2).
  /// x (rows,in); w (out,in); b (out) f32 or empty; y, pre (rows,out); pre is empty when activation is none,
  /// and y may then be f32 with x and w bf16
  virtual void linear(Tensor y, Tensor pre, Tensor x, Tensor w, Tensor b, Activation activation, Queue&) = 0;

  /// y = activation(pre) alone: the bits that `linear` leaves in y.  y, pre of one size
  virtual void activate(Tensor y, Tensor pre, Activation activation, Queue&) = 0;

  /// dx = dy·W, times activation'(pre) where `pre`, of dx's shape, is what x was the activation of.
  /// dx (rows,in); dy (rows,out); w (out,in); pre (rows,in) or empty when activation is none
  virtual void linear_backward_input(Tensor dx, Tensor dy, Tensor w, Tensor pre, Activation activation,
                                     Queue&) = 0;

  /// dw = or += dyᵀ·x; db = or += column sums of dy.  dw (out,in) f32; db (out) f32 or empty
  virtual void linear_backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, Write write, Queue&) = 0;

  /// Causal self-attention: per head softmax(q·kᵀ/√(C/H))·v, dropout on the probabilities, where element is
  /// (head·T + query)·T + key. H·T² < 2³⁴.
  /// y (B,T,C); qkv (B,T,3C), q then k then v, heads contiguous in each; log_sum (B,H,T) f32 for backward
  virtual void attention(Tensor y, Tensor log_sum, Tensor qkv, int64_t heads, const Dropout& dropout,
                         Queue&) = 0;

  /// dqkv (B,T,3C), overwritten; dy, y (B,T,C).
  virtual void attention_backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, int64_t heads,
                                  const Dropout& dropout, Queue&) = 0;

  /// Attention of n new positions of each of B sequences to themselves and to all before: their keys and
  /// values are first written into the caches at `position`. The result of a sequence depends on no other.
  /// y (B,n,C); qkv (B,n,3C); keys, values (B,H,context,C/H)
  virtual void attention_cached(Tensor y, Tensor keys, Tensor values, Tensor qkv, int64_t position,
                                int64_t heads, Queue&) = 0;

  /// Tied classifier with cross-entropy, in tiles of rows, so that logits never exist as a whole.
  /// loss_sum f64 (1) += Σ −log softmax(x·Wᵀ)[target] over the first `vocabulary` columns. With dx and dw not
  /// empty also the gradients of scale·loss: dx (rows,C) overwritten, dw (V,C) f32 as `write` says; rows of
  /// dw from `vocabulary` on get zero. x (rows,C); w (V,C), V the padded vocabulary; targets (rows) i32
  virtual void classifier(Tensor loss_sum, Tensor dx, Tensor dw, Tensor x, Tensor w, Tensor targets,
                          int64_t vocabulary, float scale, Write write, Queue&) = 0;

  /// sum += x, element by element. f32, of one size
  virtual void add(Tensor sum, Tensor x, Queue&) = 0;

  /// sum (1) = Σ terms, added in order. f64
  virtual void sum_in_order(Tensor sum, Tensor terms, Queue&) = 0;

  /// sums[i] = Σ of squares of g's block i, 1024 elements each.  sums (ceil(size/1024)) f64; g f32
  virtual void square_sums(Tensor sums, Tensor g, Queue&) = 0;

  /// grad_norm = √Σ sums, added in order; clip_scale = min(1, clip / (grad_norm + 1e-6)), 1 when clip is 0;
  /// accepted = 1 when loss_sum and grad_norm are finite and not above their limits, else 0; clip_scale may
  /// then mean nothing.  scalars f64 (StepScalar::count)
  virtual void clip_scale(Tensor scalars, Tensor sums, const StepLimits& limits, Queue&) = 0;

  /// AdamW (Loshchilov & Hutter 2019, algorithm 2) on g·clip_scale; nothing happens when scalars' accepted
  /// is 0. p, m, v, g f32 of one size; half bf16 of that size or empty: receives p, rounded as
  /// step.rounding says
  virtual void adamw(Tensor p, Tensor half, Tensor m, Tensor v, Tensor g, Tensor scalars,
                     const AdamWStep& step, Queue&) = 0;

  /// half = p, rounded as `rounding` says: the bits that adamw leaves there.
  /// half bf16 and p f32 of one size
  virtual void round(Tensor half, Tensor p, const WeightRounding& rounding, Queue&) = 0;

  /// dst = src converted between f32 and bf16, to nearest.
  virtual void cast(Tensor dst, Tensor src, Queue&) = 0;
};

}  // namespace gpt
