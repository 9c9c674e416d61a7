#pragma once

#include <cstdint>
#include <span>

namespace gpt {

/// How the next token is drawn from logits.
struct Sampling {
  double temperature = 1.0;  ///< 0: greedy
  int64_t top_k = 0;         ///< only the k likeliest; 0: all
  double top_p = 1.0;        ///< only the likeliest that together reach this (Holtzman et al. 2020, sec. 3.1)
  uint64_t seed = 1;
};

/// @throws Error(usage) naming the option for negative, NaN or out-of-range values
void validate_sampling(const Sampling& sampling);

/// A token for `logits` (one per token of the vocabulary). A pure function of its arguments: `sequence` and
/// `index` (the position in it) pick the random bits. Of equal logits the lower token comes first.
/// @throws Error(bad_numbers) for a logit that is not finite
int32_t sample(std::span<const float> logits, const Sampling& sampling, uint64_t sequence, uint64_t index);

}  // namespace gpt
