#include "model/config.hpp"

#include "base/error.hpp"

#include <limits>

namespace gpt {
namespace {

// Far above any model, and small enough that products of two of them cannot overflow.
constexpr int64_t largest_extent = int64_t{1} << 24;

void validate_extent(const char* option, int64_t value) {
  validate(value >= 1 && value <= largest_extent, "--{} {}: use a number from 1 to {}", option, value,
           largest_extent);
}

}  // namespace

void validate_config(const GptConfig& config) {
  validate_extent("layers", config.layers);
  validate_extent("heads", config.heads);
  validate_extent("width", config.width);
  validate_extent("context", config.context);
  validate_extent("vocab", config.vocabulary);
  validate(config.width % config.heads == 0,
           "--width {} is not a multiple of --heads {}: use --width {}, or another number of heads",
           config.width, config.heads, round_up(config.width, config.heads));
  validate(config.dropout >= 0.0F && config.dropout < 1.0F, "--dropout {}: use a number from 0 to below 1",
           config.dropout);
  // A position among a sequence's attention probabilities is a 34-bit number in dropout's counter.
  validate(config.dropout == 0.0F || config.context * config.context < (int64_t{1} << 34) / config.heads,
           "--dropout {} with --heads {} and --context {}: heads times the square of the context must be "
           "below 2^34; "
           "use a smaller --context or --dropout 0",
           config.dropout, config.heads, config.context);
  const int64_t block = 12 * config.width * config.width;
  validate(block < std::numeric_limits<int64_t>::max() / 64 / config.layers,
           "--layers {} with --width {}: the model is too large to count", config.layers, config.width);
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"mini", {.layers = 4, .heads = 4, .width = 256, .context = 256}},
      {"char-cpu", {.layers = 4, .heads = 4, .width = 128, .context = 64}},
      {"char", {.layers = 6, .heads = 6, .width = 384, .context = 256, .dropout = 0.2F}},
      {"gpt2", {.layers = 12, .heads = 12, .width = 768, .context = 1024}},
      {"gpt2-medium", {.layers = 24, .heads = 16, .width = 1024, .context = 1024}},
      {"gpt2-large", {.layers = 36, .heads = 20, .width = 1280, .context = 1024}},
      {"gpt2-xl", {.layers = 48, .heads = 25, .width = 1600, .context = 1024}},
  };
  return all;
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += (names.empty() ? "" : ", ") + preset.name;
  return names;
}

}  // namespace gpt
