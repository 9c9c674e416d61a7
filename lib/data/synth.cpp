#include "data/synth.hpp"

#include "base/error.hpp"
#include "base/philox.hpp"
#include "data/dataset_writer.hpp"
#include "data/grammar.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>

namespace gpt {
namespace {

constexpr uint64_t story_stream =
    0x73746f72'69657321;  // keeps the stories apart from other draws of the seed

}  // namespace

Manifest synth(const SynthOptions& options, const Progress& progress) {
  validate(options.tokenizer == "bytes" || options.tokenizer == "chars", "--tokenizer {}: use bytes or chars",
           options.tokenizer);
  validate(options.tokens >= 1 && options.tokens <= int64_t{1} << 46, "--tokens {}: use 1 to 2^46",
           options.tokens);
  const int64_t val_tokens = options.val_tokens < 0 ? options.tokens / 10 : options.val_tokens;
  validate(val_tokens <= int64_t{1} << 46, "--val-tokens {}: use at most 2^46", val_tokens);
  const SplitPlan plan{options.tokens, options.shards, val_tokens, val_tokens == 0 ? 0 : options.val_shards};
  plan.check();

  const Grammar grammar = make_story_grammar();
  const auto tokenizer =
      options.tokenizer == "chars" ? make_char_tokenizer(grammar.alphabet()) : make_byte_tokenizer();
  Manifest manifest;
  manifest.tokenizer = tokenizer->serialize();
  manifest.seed = options.seed;
  manifest.source = "stories of gpt_data synth";
  manifest.entropy =
      grammar.entropy() / grammar.length();  // the texts are ASCII: a character is a byte is a token

  OutputFolder folder(options.out, options.overwrite);
  DatasetWriter writer(folder, std::move(manifest), plan);
  const uint64_t key = random_bits(options.seed, story_stream);
  uint64_t story = 0;
  std::string text;
  std::vector<Token> tokens;
  int64_t done = 0;
  for (const int64_t wanted : {plan.train_tokens, plan.val_tokens}) {
    for (int64_t left = wanted; left > 0;) {
      text.clear();
      tokens.clear();
      grammar.sample(key, story++, text);
      tokenizer->encode(text, tokens);
      tokens.resize(std::min(tokens.size(), static_cast<size_t>(left)));
      writer.append(tokens);
      writer.end_document();
      left -= static_cast<int64_t>(tokens.size());
      done += static_cast<int64_t>(tokens.size());
      progress("writing stories", done, plan.train_tokens + plan.val_tokens);
    }
  }
  return writer.finish();
}

}  // namespace gpt
