#pragma once

#include "device/dtype.hpp"
#include "model/config.hpp"

#include <cstdint>
#include <string>

namespace gpt {

/// A model and a batch that several programs train with, in one precision.
struct PeerWork {
  std::string model;  ///< the preset's name
  int64_t batch = 1;  ///< sequences a step
  GptConfig config;
  DType type = DType::f32;   ///< of activations and what matrix products read
  std::string name() const;  ///< "gpt2 4x256 fp32"
};

/// "gpt2:4x256" is the preset gpt2 with 4 sequences of 256 tokens. The vocabulary is GPT-2's for the presets
/// that are called so, tinyshakespeare's 65 characters for the others. Dropout 0.
/// @throws Error(usage) naming the text and its form, or what of it does not fit
PeerWork parse_work(const std::string& text, const std::string& precision);

}  // namespace gpt
