#include "data/dataset.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"

#include <algorithm>

namespace gpt {

Dataset::Dataset(std::string folder)
    : folder_(std::move(folder)),
      manifest_(Manifest::read(folder_)),
      tokenizer_(load_tokenizer(manifest_.tokenizer)) {
  validate(tokenizer_->vocabulary() == manifest_.vocabulary, ExitCode::damaged,
           "{}: the manifest says {} tokens, its tokenizer has {}", folder_, manifest_.vocabulary,
           tokenizer_->vocabulary());
}

int64_t Dataset::windows_per_shard(Split split, int64_t context) const {
  expects(context >= 1);
  const auto& shards = manifest_.shards(split);
  const auto shortest =
      std::min_element(shards.begin(), shards.end(),
                       [](const ShardInfo& a, const ShardInfo& b) { return a.tokens < b.tokens; });
  return shortest == shards.end() ? 0 : (shortest->tokens - 1) / context;
}

int64_t Dataset::remainder(Split split, int64_t context) const {
  int64_t tokens = 0;
  for (const ShardInfo& shard : manifest_.shards(split)) tokens += shard.tokens;
  const auto shards = static_cast<int64_t>(manifest_.shards(split).size());
  return tokens - shards * windows_per_shard(split, context) * context;
}

void Dataset::open(Split split, Range shards) {
  const auto& infos = manifest_.shards(split);
  expects(shards.begin >= 0 && shards.end <= static_cast<int64_t>(infos.size()));
  for (int64_t shard = shards.begin; shard < shards.end; ++shard) {
    if (open_.contains({split, shard})) continue;
    open_.emplace(std::pair(split, shard),
                  Shard::open(folder_, infos[static_cast<size_t>(shard)], manifest_));
  }
}

int64_t Dataset::read_window(Split split, int64_t shard, int64_t index, std::span<Token> out) const {
  const auto found = open_.find({split, shard});
  expects(found != open_.end() && out.size() >= 2);
  const int64_t first = index * (static_cast<int64_t>(out.size()) - 1);
  found->second.read(first, out);
  return first;
}

}  // namespace gpt
