#include "text/tokenizer.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "text/utf8.hpp"

#include <nlohmann/json.hpp>

namespace gpt {
namespace {

std::vector<char32_t> code_points(const std::string& text) {
  std::vector<char32_t> codes;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Char next = first_utf8(rest);
    validate(next.length > 0, ExitCode::damaged, "the tokenizer's alphabet is not UTF-8");
    codes.push_back(next.code);
    rest.remove_prefix(static_cast<size_t>(next.length));
  }
  return codes;
}

std::unique_ptr<Tokenizer> from_json(const nlohmann::json& json) {
  const auto kind = json.at("kind").get<std::string>();
  if (kind == "bytes") return make_byte_tokenizer();
  if (kind == "chars") return make_char_tokenizer(code_points(json.at("alphabet").get<std::string>()));
  if (kind == "ids") return make_id_tokenizer(json.at("vocabulary").get<int64_t>());
  throw Error(
      fmt::format("unknown tokenizer kind '{}': this program knows bytes, chars and ids; it may be older "
                  "than the one that wrote the file",
                  kind),
      ExitCode::damaged);
}

}  // namespace

std::string Tokenizer::decode(const std::vector<Token>& tokens) const {
  std::string text;
  for (const Token token : tokens) text += decode(token);
  return text;
}

uint64_t Tokenizer::fingerprint() const { return hash_bytes(serialize()); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& serialized) {
  try {
    auto tokenizer = from_json(nlohmann::json::parse(serialized));
    validate(tokenizer->serialize() == serialized, ExitCode::damaged,
             "the tokenizer's description is not in the form that this program writes");
    return tokenizer;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("the tokenizer's description is damaged: {}", error.what()), ExitCode::damaged);
  } catch (const Error& error) {
    throw Error(error.what(), ExitCode::damaged);
  }
}

}  // namespace gpt
