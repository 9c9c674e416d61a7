#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

using Token = int32_t;

/// Text to tokens and back. Immutable; usable from several threads.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;

  virtual std::string kind() const = 0;  ///< "bytes", "chars", "ids"
  virtual int64_t vocabulary() const = 0;

  /// Appends the tokens of `text` to `out`. @throws Error(usage) naming what cannot be encoded and where
  virtual void encode(std::string_view text, std::vector<Token>& out) const = 0;

  /// The bytes of one token. @throws Error(damaged) if it is outside the vocabulary
  virtual std::string_view decode(Token token) const = 0;

  /// Self-describing text (JSON) from which load_tokenizer makes an equal tokenizer; stored in datasets and
  /// checkpoints.
  virtual std::string serialize() const = 0;

  std::string decode(const std::vector<Token>& tokens) const;
  uint64_t fingerprint() const;  ///< hash of serialize()
};

/// Each byte is a token; vocabulary 256.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Each Unicode code point of `alphabet` is a token, ids in code-point order; duplicates count once.
/// @throws Error(usage) if it is empty or holds what is no Unicode scalar value
std::unique_ptr<Tokenizer> make_char_tokenizer(std::vector<char32_t> alphabet);

/// Token numbers whose text nobody knows, as imported from a file of bare ids: token 17 decodes to "<17>",
/// and encoding is refused. @throws Error(usage) unless 1 <= vocabulary <= 2^22
std::unique_ptr<Tokenizer> make_id_tokenizer(int64_t vocabulary);

/// @throws Error(damaged) for a text that no tokenizer wrote
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& serialized);

}  // namespace gpt
