#include "bench/own_generation.hpp"

#include "base/philox.hpp"
#include "base/stopwatch.hpp"

namespace gpt {
namespace {

template <class Work>
double seconds_of(const Work& work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

}  // namespace

OwnGeneration::OwnGeneration(const GenerationSetup& setup)
    : setup_(setup),
      device_(make_cpu_device(setup.threads)),
      layout_(setup.config),
      weights_(layout_, *device_, setup.type) {
  constexpr uint64_t seed = 1;
  const std::unique_ptr<Queue> queue = device_->make_queue();
  set_initial_weights(weights_, layout_, setup.config, seed, *queue);
  weights_.round(to_nearest, *queue);
  for (int64_t i = 0; i < setup.prompt; ++i)
    prompt_.push_back(static_cast<int32_t>(random_bits(seed, static_cast<uint64_t>(i)) %
                                           static_cast<uint64_t>(setup.config.vocabulary)));
  generator_ = std::make_unique<Generator>(setup.config, *device_, weights_.with({}), setup.config.vocabulary,
                                           setup.sequences);
}

OwnGeneration::Took OwnGeneration::operator()() {
  Took took;
  took.prompt = seconds_of([&] { generator_->start(prompt_, {.temperature = 0.0}, 0, setup_.sequences); });
  took.generation = seconds_of([&] {
    for (int64_t i = 0; i < setup_.tokens; ++i) generator_->next();
  });
  return took;
}

int64_t OwnGeneration::weight_bytes() const {
  const GptConfig& config = setup_.config;
  return (layout_.parameters() - config.context * config.width) * size_of(setup_.type);
}

}  // namespace gpt
