#include "base/error.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

constexpr Token absent = -1;
constexpr size_t ascii_codes = 128;

class CharTokenizer final : public Tokenizer {
public:
  /// @param alphabet  sorted, without duplicates
  explicit CharTokenizer(const std::vector<char32_t>& alphabet)
      : ids_(std::max<size_t>(alphabet.back() + 1, ascii_codes), absent) {
    for (const char32_t code : alphabet) {
      ids_[code] = static_cast<Token>(texts_.size());
      append_utf8(texts_.emplace_back(), code);
    }
  }

  using Tokenizer::decode;

  std::string kind() const override { return "chars"; }
  int64_t vocabulary() const override { return static_cast<int64_t>(texts_.size()); }

  void encode(std::string_view text, std::vector<Token>& out) const override {
    const size_t before = out.size();
    out.reserve(before + text.size());
    for (size_t at = 0; at < text.size();) {
      if (const size_t ascii = encode_ascii(text.substr(at), out); ascii > 0) {
        at += ascii;
        continue;
      }
      const Utf8Char next = first_utf8(text.substr(at));
      const Token id = next.length > 0 && next.code < ids_.size() ? ids_[next.code] : absent;
      if (id == absent) refuse(text, at, static_cast<int64_t>(out.size() - before), next);
      out.push_back(id);
      at += static_cast<size_t>(next.length);
    }
  }

  std::string_view decode(Token token) const override {
    validate(token >= 0 && token < vocabulary(), ExitCode::damaged,
             "token {} is outside the alphabet of {} characters", token, vocabulary());
    return texts_[static_cast<size_t>(token)];
  }

  std::string serialize() const override {
    std::string alphabet;
    for (const std::string& text : texts_) alphabet += text;
    return nlohmann::json{{"kind", "chars"}, {"alphabet", alphabet}}.dump();
  }

private:
  /// Appends the tokens of the ASCII characters that `text` begins with, up to one that is not in the
  /// alphabet, and returns how many.
  size_t encode_ascii(std::string_view text, std::vector<Token>& out) const {
    const std::string_view run = text.substr(0, ascii_prefix(text));
    const size_t first = out.size();
    out.resize(first + run.size());
    Token* const to = out.data() + first;
    Token lowest = 0;
    for (size_t i = 0; i < run.size(); ++i) {
      to[i] = ids_[static_cast<unsigned char>(run[i])];
      lowest = std::min(lowest, to[i]);
    }
    if (lowest != absent) return run.size();
    const auto known = static_cast<size_t>(std::find(to, to + run.size(), absent) - to);
    out.resize(first + known);
    return known;
  }

  /// Apart from the loop: a message for every character would cost a hundred times the lookup.
  [[noreturn]] void refuse(std::string_view text, size_t at, int64_t characters, const Utf8Char& next) const {
    if (next.length == 0) {
      throw Error(fmt::format("the text is not valid UTF-8 at byte {} (0x{:02x})", at,
                              static_cast<unsigned char>(text[at])),
                  ExitCode::usage);
    }
    throw Error(
        fmt::format("character {} at position {} is not in the alphabet of {} characters: leave it out, or "
                    "use data packed with --tokenizer bytes",
                    describe_char(next.code), characters, texts_.size()),
        ExitCode::usage);
  }

  std::vector<Token> ids_;          // by code point: at most 4.4 MB
  std::vector<std::string> texts_;  // by token
};

}  // namespace

std::unique_ptr<Tokenizer> make_char_tokenizer(std::vector<char32_t> alphabet) {
  validate(!alphabet.empty(), "a character tokenizer needs an alphabet of at least one character");
  std::sort(alphabet.begin(), alphabet.end());
  alphabet.erase(std::unique(alphabet.begin(), alphabet.end()), alphabet.end());
  for (const char32_t code : alphabet) {
    validate(is_scalar(code), "0x{:x} in the alphabet is not a Unicode character",
             static_cast<uint32_t>(code));
  }
  return std::make_unique<CharTokenizer>(alphabet);
}

}  // namespace gpt
