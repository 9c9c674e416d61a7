#pragma once

#include "data/file_io.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace gpt {

enum class TokenFormat { automatic, llmc, nanogpt };

/// A file of 16-bit token ids, little endian. llm.c: 256 32-bit integers in front (20240520, version 1,
/// number of tokens, zeros), as its dev/data/data_common.py writes them. nanoGPT: nothing but the tokens.
class TokenFile {
public:
  /// `automatic` takes the file for llm.c's if it begins with that number.
  /// @throws Error(usage) naming file, value and what is expected
  TokenFile(std::string path, TokenFormat format);

  const std::string& path() const { return path_; }
  TokenFormat format() const { return format_; }
  int64_t tokens() const { return tokens_; }

  /// Tokens [begin, begin + out.size()), which must be there.
  void read(int64_t begin, std::span<Token> out) const;

private:
  void read_header(int64_t bytes);

  std::string path_;
  FileHandle file_;
  TokenFormat format_;
  int64_t first_byte_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace gpt
