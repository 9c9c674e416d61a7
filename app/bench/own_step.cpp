#include "bench/own_step.hpp"

#include "base/philox.hpp"

#include <algorithm>
#include <chrono>

namespace gpt {

OwnStep::OwnStep(const World& world, const GptConfig& config, int64_t sequences, int64_t global_batch,
                 int threads)
    : device_(make_cpu_device(threads)),
      comm_(make_mpi_comm(world.world())),
      layout_(config),
      queue_(device_->make_queue()),
      params_(*device_, DType::f32, {layout_.size()}),
      gradients_(*device_, DType::f32, {layout_.size()}),
      tokens_(*device_, DType::i32, {sequences, config.context}),
      model_(config, *device_, sequences, {.weights = params_, .matrices = params_, .gradients = gradients_}),
      reducer_(layout_, *comm_, *device_, gradients_, int64_t{25} << 20),
      optimizer_(layout_, *device_, params_, gradients_, {}),
      scalars_(*device_),
      scale_(1.0F / static_cast<float>(global_batch * config.context)) {
  initialize_weights(layout_, config, 1, params_);
  int32_t* const tokens = tokens_->data<int32_t>();
  for (int64_t i = 0; i < tokens_->size(); ++i)
    tokens[i] = static_cast<int32_t>(random_bits(1, static_cast<uint64_t>(i)) %
                                     static_cast<uint64_t>(config.vocabulary));
}

double OwnStep::operator()() {
  const auto start = std::chrono::steady_clock::now();
  scalars_.reset(*queue_);
  reducer_.begin_micro(true, *queue_);
  model_.train({.inputs = tokens_, .targets = tokens_}, scalars_.device().flat({0, 1}), {.scale = scale_},
               reducer_, *queue_);
  reducer_.finish(scalars_.device(), 1.0, *queue_);
  optimizer_.step(step_++, 1e-4, scalars_.device(), {{0, layout_.size()}}, *queue_);
  queue_->synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

GptConfig bench_config(const std::string& name, int64_t context, int64_t vocabulary) {
  const auto preset = std::ranges::find(presets(), name, &Preset::name);
  validate(preset != presets().end(), "--preset {}: use {}", name, preset_names());
  GptConfig config = preset->config;
  config.context = context;
  config.vocabulary = vocabulary;
  config.dropout = 0.0F;
  validate_config(config);
  return config;
}

void check_threads(int64_t threads) {
  validate(threads >= 0 && threads <= 4096, "--threads {}: use 0 (automatic) or up to 4096", threads);
}

}  // namespace gpt
