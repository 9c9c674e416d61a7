#pragma once

#include "data/lanes.hpp"
#include "data/manifest.hpp"
#include "data/shard.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpt {

/// A dataset's manifest, its tokenizer, and those of its shards that this process reads.
class Dataset {
public:
  /// Reads the manifest; opens no shard yet. @throws Error(usage|damaged)
  explicit Dataset(std::string folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  /// Windows of context+1 tokens, stride context, that every shard of the split has (the shortest one's).
  int64_t windows_per_shard(Split split, int64_t context) const;

  /// Tokens that no window of that context covers as input, over all shards of the split.
  int64_t remainder(Split split, int64_t context) const;

  /// Opens and checks shards [range) of the split.
  void open(Split split, Range shards);

  /// Window `index` of an open shard: out has context+1 tokens, starting at index·context.
  /// Returns the token of the shard from which on it was read.
  int64_t read_window(Split split, int64_t shard, int64_t index, std::span<Token> out) const;

private:
  std::string folder_;
  Manifest manifest_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::map<std::pair<Split, int64_t>, Shard> open_;
};

}  // namespace gpt
