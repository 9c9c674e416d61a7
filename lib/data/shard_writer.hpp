#pragma once

#include "data/manifest.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gpt {

/// Writes one shard: memory use does not grow with it. Nothing with the final name exists before finish().
class ShardWriter {
public:
  /// @param tokens  exactly how many will be appended
  ShardWriter(const std::string& folder, const std::string& file, const Manifest& manifest, Split split,
              int64_t tokens);
  ~ShardWriter();

  /// @throws Error(damaged) naming offset and value of a token outside the vocabulary
  void append(std::span<const Token> tokens);
  void end_document();

  /// Writes offsets, checksums and attributes, and renames; to bring the file to the disk is left to the
  /// caller, who does it for many at once. @throws Error if fewer tokens came than promised
  ShardInfo finish();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
