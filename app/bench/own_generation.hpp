#pragma once

#include "device/device.hpp"
#include "model/generator.hpp"
#include "model/layout.hpp"
#include "train/weights.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

struct GenerationSetup {
  GptConfig config;
  int64_t sequences = 1;
  int64_t prompt = 1;  ///< tokens
  int64_t tokens = 1;  ///< of each sequence, behind the prompt
  int threads = 1;
  DType type = DType::f32;  ///< of weights and activations
};

/// Greedy generation by this program, from random weights and a random prompt.
class OwnGeneration {
public:
  explicit OwnGeneration(const GenerationSetup& setup);

  struct Took {
    double prompt = 0.0;      ///< seconds until the first token can be drawn
    double generation = 0.0;  ///< and from then on until the last is drawn
    double seconds() const { return prompt + generation; }
  };
  Took operator()();

  /// Bytes of weights that every token but the first one reads: all but the table of positions.
  int64_t weight_bytes() const;

private:
  GenerationSetup setup_;
  std::unique_ptr<Device> device_;
  Layout layout_;
  Weights weights_;
  std::vector<int32_t> prompt_;
  std::unique_ptr<Generator> generator_;
};

}  // namespace gpt
