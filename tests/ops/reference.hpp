#pragma once

#include "device/ops.hpp"

#include <cstdint>
#include <vector>

/// The operations of Ops as loops in double precision, as plain as the formulas. reference_test.cpp proves
/// the backward ones against finite differences of the forward ones. Shapes as in ops.hpp; empty: not there.
namespace gpt::reference {

using Array = std::vector<double>;
using Tokens = std::vector<int32_t>;

/// What dropout multiplies element `element` of sequence `sequence` of a tensor by.
double dropout_factor(const Dropout& dropout, int64_t sequence, int64_t element);

struct EmbedSizes {
  int64_t sequences, positions, width, vocabulary, context, first_position;
};
Array embed(const EmbedSizes& s, const Tokens& tokens, const Array& wte, const Array& wpe,
            const Dropout& dropout);
struct EmbedGradients {
  Array wte, wpe;
};
EmbedGradients embed_backward(const EmbedSizes& s, const Array& dx, const Tokens& tokens,
                              const Dropout& dropout);

struct NormSizes {
  int64_t sequences, positions, width;
  int64_t rows() const { return sequences * positions; }
};
struct NormResult {
  Array sum, y, mean, rstd;
};
NormResult add_norm(const NormSizes& s, const Array& x, const Array& delta, const Array& weight,
                    const Array& bias, const Dropout& dropout);
struct NormGradients {
  Array dx, d_delta, d_weight, d_bias;
};
/// `residual` is what dx holds before, empty for zero.
NormGradients add_norm_backward(const NormSizes& s, const Array& dy, const Array& sum, const Array& weight,
                                const Array& residual, const Dropout& dropout);

double gelu(double x);
double gelu_slope(double x);

struct LinearSizes {
  int64_t rows, in, out;
};
/// x·Wᵀ + b, before the activation
Array linear(const LinearSizes& s, const Array& x, const Array& w, const Array& b);
Array linear_backward_input(const LinearSizes& s, const Array& dy, const Array& w);
Array linear_backward_weight(const LinearSizes& s, const Array& dy, const Array& x);
Array column_sums(const LinearSizes& s, const Array& dy);

struct AttentionSizes {
  int64_t sequences, positions, heads, head_size;
  int64_t width() const { return heads * head_size; }
};
struct AttentionResult {
  Array y, log_sum;
};
AttentionResult attention(const AttentionSizes& s, const Array& qkv, const Dropout& dropout);
Array attention_backward(const AttentionSizes& s, const Array& dy, const Array& qkv, const Dropout& dropout);

struct ClassifierSizes {
  int64_t rows, width, vocabulary, padded;
};
double classifier_loss(const ClassifierSizes& s, const Array& x, const Array& w, const Tokens& targets);
struct ClassifierGradients {
  Array dx, dw;
};
ClassifierGradients classifier_backward(const ClassifierSizes& s, const Array& x, const Array& w,
                                        const Tokens& targets, double scale);

struct AdamWState {
  Array p, m, v;
};
void adamw(AdamWState& state, const Array& g, double clip_scale, const AdamWStep& step);

}  // namespace gpt::reference
