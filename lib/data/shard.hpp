#pragma once

#include "base/integers.hpp"
#include "data/manifest.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gpt {

/// One shard open for reading. Opened and checked through HDF5; tokens are then read at the dataset's offset
/// in the file, so that no HDF5 call stands inside a training step. read() may be called from several
/// threads.
class Shard {
public:
  /// @throws Error(damaged) naming the file and what differs from what the manifest promises
  static Shard open(const std::string& folder, const ShardInfo& info, const Manifest& manifest);
  Shard(Shard&&) noexcept;
  Shard& operator=(Shard&&) noexcept;
  ~Shard();

  int64_t tokens() const;

  /// Tokens [begin, begin + out.size()). @throws Error(damaged) naming file, offset and value if the file
  /// ends before, or a token is not below the vocabulary
  void read(int64_t begin, std::span<Token> out) const;

private:
  struct Impl;
  explicit Shard(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt
