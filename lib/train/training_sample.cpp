#include "train/training_sample.hpp"

#include "base/fault.hpp"
#include "model/generator.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace gpt {

TrainingSample draw_training_sample(const TrainOptions& options, const Dataset& dataset, int64_t shard,
                                    const FlatParameters& weights, Device& device, Watchdog& watchdog,
                                    int64_t tokens) {
  fault_point("sample");
  constexpr int64_t prompt_tokens = 16;
  std::vector<Token> window(static_cast<size_t>(options.model.context) + 1);
  dataset.read_window(Split::train, shard, 0, window);
  const auto length = std::min<int64_t>(prompt_tokens, options.model.context);
  const std::vector<Token> prompt(window.begin(), window.begin() + length);

  const Tokenizer& tokenizer = dataset.tokenizer();
  Generator generator(options.model, device, weights, tokenizer.vocabulary());
  generator.start(prompt, {.temperature = 0.8, .top_k = 50, .top_p = 1.0, .seed = options.seed}, 0);
  std::vector<Token> drawn;
  for (int64_t i = 0; i < tokens; ++i) {
    drawn.push_back(generator.next().front());
    watchdog.tick();
  }
  return {.prompt = nlohmann::json(tokenizer.decode(prompt))
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
          .continuation = tokenizer.decode(drawn)};
}

}  // namespace gpt
