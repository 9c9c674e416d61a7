#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/notice.hpp"
#include "base/stopwatch.hpp"
#include "data/text_reader.hpp"
#include "device/device.hpp"
#include "model/generator.hpp"
#include "model/precision.hpp"
#include "option_values.hpp"
#include "text/tokenizer.hpp"
#include "train/checkpoint.hpp"
#include "train/device_choice.hpp"
#include "train/read_weights.hpp"
#include "train/threads.hpp"
#include "train/versions.hpp"
#include "train_options.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <span>
#include <string_view>
#include <utility>

namespace {

namespace po = boost::program_options;

constexpr int64_t largest_prompt = int64_t{64} << 20;  // bytes

struct Options {
  std::string checkpoint = "runs/default";
  std::string prompt;
  std::string prompt_file;
  int64_t tokens = 200;
  int64_t count = 1;
  int64_t threads = 0;
  std::string precision = "auto";
  std::string device = "auto";
  std::string seed = "1";
  bool speed = true;
  gpt::Sampling sampling;
};

po::options_description describe(Options& o) {
  po::options_description description("Options");
  const auto value = [](auto& target) { return po::value(&target)->default_value(target); };
  // clang-format off
  description.add_options()
      ("checkpoint", value(o.checkpoint), "checkpoint file, or a run folder: its newest checkpoint")
      ("prompt", value(o.prompt), "text to go on from")
      ("prompt-file", value(o.prompt_file), "file with the text to go on from")
      ("tokens", value(o.tokens), "tokens to generate")
      ("count", value(o.count), "samples")
      ("temperature", value(o.sampling.temperature), "0: always the likeliest token")
      ("top-k", value(o.sampling.top_k), "draw from the k likeliest; 0: from all")
      ("top-p", value(o.sampling.top_p), "draw from the likeliest that together reach this probability")
      ("seed", value(o.seed), "of the draws")
      ("threads", value(o.threads), "0: all cores that may be used")
      ("precision", value(o.precision), "of weights and activations: fp32; bf16, which is faster; auto: as in training")
      ("device", value(o.device), "auto (a GPU if there is one), cpu, cuda")
      ("speed", value(o.speed), "say on standard error how fast it was, as name=value")
      ("help", po::bool_switch(), "this text")
      ("version", po::bool_switch(), "versions of the program and its libraries");
  // clang-format on
  return description;
}

std::string read_prompt(const Options& options) {
  if (options.prompt_file.empty()) return options.prompt;
  gpt::validate(options.prompt.empty(), "--prompt and --prompt-file: give one of them");
  gpt::validate(std::filesystem::exists(options.prompt_file), "--prompt-file {}: there is no such file",
                options.prompt_file);
  return gpt::read_text(options.prompt_file, largest_prompt);
}

std::string checkpoint_file(const std::string& given) {
  gpt::validate(std::filesystem::exists(given), "--checkpoint {}: there is no such run folder or file",
                given);
  if (!std::filesystem::is_directory(given)) {
    gpt::validate(std::filesystem::is_regular_file(given),
                  "--checkpoint {} is not a regular file: name a checkpoint or a run folder", given);
    return given;
  }
  const gpt::CheckpointList list = gpt::list_checkpoints(given + "/checkpoints");
  for (const std::string& text : list.passed_over) gpt::notice(fmt::format("notice: passed over {}", text));
  gpt::validate(!list.valid.empty(), list.broken ? gpt::ExitCode::damaged : gpt::ExitCode::usage,
                "--checkpoint {}: no valid checkpoint in {}/checkpoints: name another", given, given);
  return list.valid.front().path;
}

/// Prompt as tokens. An empty one becomes a line break, or the first token where the tokenizer has none.
std::vector<gpt::Token> encode_prompt(const gpt::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<gpt::Token> tokens;
  tokenizer.encode(prompt, tokens);
  if (!tokens.empty()) return tokens;
  try {
    tokenizer.encode("\n", tokens);
  } catch (const gpt::Error&) {
    tokens = {0};
  }
  return tokens;
}

struct Prompt {
  std::string text;
  std::vector<gpt::Token> tokens;  ///< the last ones, if the model sees no more
};

Prompt make_prompt(const gpt::Tokenizer& tokenizer, std::string text, int64_t context) {
  std::vector<gpt::Token> tokens = encode_prompt(tokenizer, text);
  if (std::ssize(tokens) > context) {
    gpt::notice(fmt::format("notice: the prompt has {} tokens, the model sees the last {} of them",
                            tokens.size(), context));
    tokens.erase(tokens.begin(), tokens.end() - context);
  }
  return {.text = std::move(text), .tokens = std::move(tokens)};
}

/// Tokens and the seconds they took.
struct Pace {
  int64_t tokens = 0;
  double seconds = 0.0;

  template <class Work>
  void time(int64_t more, const Work& work) {
    const gpt::Stopwatch watch;
    work();
    seconds += watch.seconds();
    tokens += more;
  }
  std::string text(std::string_view name) const {
    return fmt::format("{0}_tokens={1} {0}_seconds={2:.6f} {0}_tokens_per_second={3:.2f}", name, tokens,
                       seconds, seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0);
  }
};

struct Speed {
  Pace prompt, generation;
};

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Samples [samples) side by side: the first appears as it is drawn, the others wait for its end.
void print_group(const Options& options, gpt::Generator& generator, const gpt::Tokenizer& tokenizer,
                 const Prompt& prompt, gpt::Range samples, Speed& speed) {
  const auto separate = [&](int64_t sample) {
    if (sample > 0) write("\n---\n");
    write(prompt.text);
  };
  separate(samples.begin);
  if (options.tokens > 0)
    speed.prompt.time(std::ssize(prompt.tokens), [&] {
      generator.start(prompt.tokens, options.sampling, static_cast<uint64_t>(samples.begin), samples.size());
    });
  std::vector<std::string> waiting(static_cast<size_t>(samples.size()));
  for (int64_t i = 0; i < options.tokens; ++i) {
    std::span<const gpt::Token> drawn;
    speed.generation.time(samples.size(), [&] { drawn = generator.next(); });
    write(tokenizer.decode(drawn.front()));
    for (size_t s = 1; s < waiting.size(); ++s) waiting[s] += tokenizer.decode(drawn[s]);
  }
  for (size_t s = 1; s < waiting.size(); ++s) {
    separate(samples.begin + static_cast<int64_t>(s));
    write(waiting[s]);
  }
}

Speed print_samples(const Options& options, gpt::Generator& generator, const gpt::Tokenizer& tokenizer,
                    const Prompt& prompt) {
  Speed speed;
  for (int64_t sample = 0; sample < options.count; sample += gpt::Generator::most_sequences)
    print_group(options, generator, tokenizer, prompt,
                {sample, std::min(sample + gpt::Generator::most_sequences, options.count)}, speed);
  if (options.count > 0) write("\n");
  gpt::validate(std::ferror(stdout) == 0, gpt::ExitCode::failed, "cannot write to standard output");
  return speed;
}

/// How weights and activations are held.
struct Precision {
  gpt::DType type = gpt::DType::f32;
  gpt::WeightRounding rounding = {};
};

/// @param name  auto: as the run held them that saved the checkpoint
Precision make_precision(const std::string& name, const gpt::CheckpointHeader& header) {
  if (name != "auto") return {.type = gpt::precision_named(name)};
  const gpt::TrainOptions trained = gpt::layered_options({}, header.configuration);
  Precision precision{.type = trained.matrix_type(), .rounding = trained.weight_rounding()};
  precision.rounding.step = header.last_update;
  return precision;
}

int run(int argc, char** argv) {
  Options options;
  const po::options_description description = describe(options);
  po::variables_map values;
  constexpr int style = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                        po::command_line_style::long_allow_next;
  gpt::check_values_follow({argv + std::min(argc, 1), argv + argc}, description);
  try {
    po::store(po::command_line_parser(argc, argv).options(description).style(style).positional({}).run(),
              values);
    po::notify(values);
  } catch (const po::too_many_positional_options_error&) {
    throw gpt::Error(
        "every argument is an option with a value, as in --tokens 100; 'gpt_sample --help' lists them",
        gpt::ExitCode::usage);
  } catch (const po::error& error) {
    throw gpt::Error(fmt::format("{}; 'gpt_sample --help' lists the options", error.what()),
                     gpt::ExitCode::usage);
  }
  if (values["help"].as<bool>()) {
    std::cout << "gpt_sample continues a text with a model that gpt_mpi trained.\n\n"
                 "  ./gpt_sample --checkpoint runs/demo --prompt 'In the beginning' --tokens 300\n\n"
              << description;
    return 0;
  }
  if (values["version"].as<bool>()) {
    fmt::print("{}", gpt::version_text("gpt_sample"));
    return 0;
  }
  gpt::validate(options.tokens >= 0, "--tokens {}: use 0 or a positive number", options.tokens);
  gpt::validate(options.count >= 0, "--count {}: use 0 or a positive number", options.count);
  gpt::check_threads(options.threads);
  options.sampling.seed = gpt::parse_seed(options.seed);
  gpt::validate_device(options.device);
  gpt::validate_sampling(options.sampling);
  gpt::validate(values["prompt-file"].defaulted() || !options.prompt_file.empty(),
                "--prompt-file '': name a file");
  std::string text = read_prompt(options);

  const std::string file = checkpoint_file(options.checkpoint);
  const gpt::CheckpointHeader header = gpt::read_checkpoint_header(file);
  const Precision precision = make_precision(options.precision, header);
  const auto tokenizer = gpt::load_tokenizer(header.tokenizer);
  gpt::validate(tokenizer->vocabulary() <= header.model.vocabulary, gpt::ExitCode::damaged,
                "{}: its tokenizer has {} tokens, its model {}", file, tokenizer->vocabulary(),
                header.model.vocabulary);
  const Prompt prompt = make_prompt(*tokenizer, std::move(text), header.model.context);

  const int64_t threads = options.threads > 0 ? options.threads : std::ssize(gpt::usable_cores());
  const auto device = gpt::make_device(gpt::choose_device(options.device), static_cast<int>(threads), {});
  const gpt::Layout layout(header.model);
  const gpt::ReadWeights weights(layout, precision.type, *device);
  gpt::load_weights(file, layout, weights, precision.rounding, *device, *device->make_queue());
  gpt::Generator generator(header.model, *device, weights.with({}), tokenizer->vocabulary(),
                           std::clamp<int64_t>(options.count, 1, gpt::Generator::most_sequences));
  const Speed speed = print_samples(options, generator, *tokenizer, prompt);
  if (options.speed && speed.generation.tokens > 0)
    gpt::notice(fmt::format("speed: precision={} threads={} samples={} {} {}",
                            gpt::name_of_precision(precision.type), threads, options.count,
                            speed.prompt.text("prompt"), speed.generation.text("generated")));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  gpt::configure_faults(0, gpt::Program::sampling);
  const int code = run(argc, argv);
  gpt::say_idle_faults(gpt::fault_uses());
  return code;
} catch (const gpt::Error& error) {
  gpt::notice(fmt::format("gpt_sample: {}", error.what()));
  return static_cast<int>(error.code());
} catch (const std::exception& error) {
  gpt::notice(fmt::format("gpt_sample: {}", error.what()));
  return static_cast<int>(gpt::ExitCode::failed);
}
