#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/adamw.hpp"
#include "train/reducer.hpp"
#include "train/step_scalars.hpp"

#include <cstdint>
#include <memory>

namespace gpt {

/// Training steps of this program on random tokens.
class OwnStep {
public:
  OwnStep(const World& world, const GptConfig& config, int64_t sequences, int64_t global_batch, int threads);

  /// Seconds of one step.
  double operator()();

private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Comm> comm_;
  Layout layout_;
  std::unique_ptr<Queue> queue_;
  TensorBuffer params_, gradients_, tokens_;
  Gpt model_;
  Reducer reducer_;
  AdamW optimizer_;
  StepScalars scalars_;
  float scale_;
  int64_t step_ = 0;
};

/// The model of a preset with another context and vocabulary, without dropout. @throws Error(usage)
GptConfig bench_config(const std::string& preset, int64_t context, int64_t vocabulary);

/// @throws Error(usage)
void check_threads(int64_t threads);

}  // namespace gpt
