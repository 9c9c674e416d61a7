#include "data/inspect.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/dataset.hpp"
#include "text/printable.hpp"

#include <algorithm>
#include <vector>

namespace gpt {
namespace {

std::string describe_split(const Dataset& dataset, Split split, int64_t context) {
  const auto& shards = dataset.manifest().shards(split);
  if (shards.empty()) return "none\n";
  int64_t tokens = 0;
  int64_t documents = 0;
  const auto count = static_cast<int64_t>(shards.size());
  for (const ShardInfo& shard : shards) {
    tokens += shard.tokens;
    documents += shard.documents;
  }
  const int64_t windows = dataset.windows_per_shard(split, context);
  return fmt::format(
      "{} tokens in {} shard{} of {}{}, {} document{} or parts of documents\n"
      "              {} windows of --context {} per epoch ({} in each shard), {} tokens over\n",
      tokens, count, count == 1 ? "" : "s", tokens / count,
      tokens % count == 0 ? "" : fmt::format(" or {}", tokens / count + 1), documents,
      documents == 1 ? "" : "s", windows * count, context, windows, dataset.remainder(split, context));
}

}  // namespace

std::string describe_dataset(const std::string& folder, int64_t context, int64_t excerpt) {
  validate(context >= 1, "--context {}: use at least 1", context);
  validate(excerpt >= 0, "--excerpt {}: use 0 or more tokens", excerpt);
  const Dataset dataset(folder);
  const Manifest& manifest = dataset.manifest();
  const Tokenizer& tokenizer = dataset.tokenizer();
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<12}  {}\n", name, value);
  };
  line("dataset", folder);
  line("made of", printable(manifest.source));
  line("fingerprint", to_hex(manifest.fingerprint()));
  line("tokenizer", fmt::format("{}, {} different tokens, stored in {} byte{} each, fingerprint {}",
                                tokenizer.kind(), manifest.vocabulary, manifest.token_bytes,
                                manifest.token_bytes == 1 ? "" : "s", to_hex(tokenizer.fingerprint())));
  line("seed", fmt::format("{}", manifest.seed));
  if (manifest.entropy)
    line("entropy", fmt::format("{:.6f} nats per token: no loss can be lower", *manifest.entropy));
  text += fmt::format("{:<12}  {}", "training", describe_split(dataset, Split::train, context));
  text += fmt::format("{:<12}  {}", "validation", describe_split(dataset, Split::val, context));

  const int64_t shown = std::min(excerpt, manifest.train.front().tokens);
  if (shown == 0) return text;
  std::vector<Token> tokens(static_cast<size_t>(shown));
  Shard::open(folder, manifest.train.front(), manifest).read(0, tokens);
  text += fmt::format("\nThe first {} training tokens:\n{}\n", shown, printable(tokenizer.decode(tokens)));
  return text;
}

}  // namespace gpt
