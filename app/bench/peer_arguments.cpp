#include "bench/peer_arguments.hpp"

namespace gpt {

void add_number(std::vector<std::string>& arguments, const char* name, int64_t value) {
  arguments.push_back(std::string("--") + name);
  arguments.push_back(std::to_string(value));
}

void add_model(std::vector<std::string>& arguments, const GptConfig& config) {
  add_number(arguments, "layers", config.layers);
  add_number(arguments, "heads", config.heads);
  add_number(arguments, "width", config.width);
  add_number(arguments, "context", config.context);
  add_number(arguments, "vocabulary", config.vocabulary);
}

std::vector<std::string> training_arguments(const GptConfig& config, DType type, int64_t batch, int64_t steps,
                                            int threads, bool compiled) {
  std::vector<std::string> arguments;
  add_model(arguments, config);
  add_number(arguments, "batch", batch);
  add_number(arguments, "threads", threads);
  add_number(arguments, "steps", steps);
  if (type == DType::bf16) arguments.emplace_back("--bf16");
  if (compiled) arguments.emplace_back("--compile");
  return arguments;
}

}  // namespace gpt
