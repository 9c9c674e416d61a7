#pragma once

#include "base/integers.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// A GPT-2: learned positions, pre-LayerNorm, GELU (tanh form), classifier tied to the embedding.
struct GptConfig {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 256;
  int64_t context = 128;
  int64_t vocabulary = 256;
  bool bias = true;      ///< biases in linear layers and norms
  float dropout = 0.0F;  ///< after embedding, on attention probabilities, on both branches of a block

  /// Rows of the embedding as stored: a multiple of 128, so that matrix products stay aligned.
  int64_t padded_vocabulary() const { return round_up(vocabulary, 128); }

  bool operator==(const GptConfig&) const = default;
};

/// @throws Error(usage) naming the option, its value and what is allowed
void validate_config(const GptConfig& config);

/// A named size. `vocabulary` is not part of it: the dataset says.
struct Preset {
  std::string name;
  GptConfig config;
};
const std::vector<Preset>& presets();

/// "mini, char-cpu, …", for messages.
std::string preset_names();

}  // namespace gpt
