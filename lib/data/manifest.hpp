#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

enum class Split { train, val };

constexpr const char* name_of(Split split) { return split == Split::train ? "train" : "val"; }

struct ShardInfo {
  std::string file;  ///< name inside the dataset's folder
  int64_t tokens = 0;
  int64_t documents = 0;
  uint64_t checksum = 0;  ///< over the token bytes as stored
};

/// What a dataset is: `dataset.h5` in its folder (docs/data-format.md).
struct Manifest {
  static constexpr int64_t format = 1;

  std::string tokenizer;  ///< Tokenizer::serialize()
  int64_t vocabulary = 0;
  int64_t token_bytes = 0;  ///< 1, 2 or 4: the narrowest unsigned type that holds the vocabulary
  uint64_t seed = 0;
  std::string source;             ///< for people: what it was made of
  std::optional<double> entropy;  ///< nats per token of a synthetic corpus: no model's loss can be lower
  std::vector<ShardInfo> train;
  std::vector<ShardInfo> val;

  const std::vector<ShardInfo>& shards(Split split) const { return split == Split::train ? train : val; }

  /// Changes when tokens, their order, their cut into shards or the tokenizer change; not with file times.
  uint64_t fingerprint() const;

  /// @throws Error(damaged) if it is not a manifest; Error(usage) with what to do if the folder is absent or
  /// none of a dataset
  static Manifest read(const std::string& folder);
  void write(const std::string& folder) const;
};

}  // namespace gpt
