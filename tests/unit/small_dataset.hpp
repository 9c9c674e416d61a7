#pragma once

#include "base/error.hpp"
#include "data/dataset_writer.hpp"
#include "data/shard.hpp"
#include "h5/h5.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace gpt::test {

/// A dataset of the given token ids.
inline Manifest write_dataset(const std::string& path, const std::vector<Token>& train, int64_t shards,
                              int64_t vocabulary, const std::vector<Token>& val = {}) {
  Manifest manifest;
  manifest.tokenizer = make_id_tokenizer(vocabulary)->serialize();
  manifest.source = "test";
  OutputFolder folder(path, true);
  const SplitPlan plan{static_cast<int64_t>(train.size()), shards, static_cast<int64_t>(val.size()),
                       val.empty() ? 0 : 1};
  DatasetWriter writer(folder, manifest, plan);
  writer.append(train);
  writer.end_document();
  writer.append(val);
  return writer.finish();
}

/// 0, 1, 2, … below `vocabulary`, over and over.
inline std::vector<Token> counting(int64_t count, int64_t vocabulary) {
  std::vector<Token> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<Token>(i % vocabulary));
  return tokens;
}

/// All tokens of a split, in order.
inline std::vector<Token> tokens_of(const std::string& path, Split split) {
  const Manifest manifest = Manifest::read(path);
  std::vector<Token> all;
  for (const ShardInfo& info : manifest.shards(split)) {
    const Shard shard = Shard::open(path, info, manifest);
    std::vector<Token> tokens(static_cast<size_t>(shard.tokens()));
    shard.read(0, tokens);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

inline std::string text_of(const std::string& path, Split split) {
  return load_tokenizer(Manifest::read(path).tokenizer)->decode(tokens_of(path, split));
}

/// Overwrites bytes of a file in place, `element` elements after the beginning of a dataset's first.
inline void damage(const std::string& file, const std::string& dataset, int64_t byte,
                   const std::string& bytes) {
  const int64_t offset = H5File::open(file).open_dataset(dataset).file_offset();
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(offset + byte);
  stream << bytes;
}

/// What `action` throws.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error("nothing was thrown", ExitCode::finished);
}

inline bool says(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace gpt::test
