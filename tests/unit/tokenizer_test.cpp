#include "text/tokenizer.hpp"

#include "unit/small_dataset.hpp"

#include <doctest/doctest.h>
#include <string>

using namespace gpt;
using gpt::test::error_of;
using gpt::test::says;

namespace {

std::vector<Token> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<Token> tokens{-7};  // encode appends
  tokenizer.encode(text, tokens);
  REQUIRE(tokens.front() == -7);
  return {tokens.begin() + 1, tokens.end()};
}

}  // namespace

TEST_CASE("the byte tokenizer takes any bytes and gives them back") {
  std::string all;
  for (int value = 0; value < 256; ++value) all.push_back(static_cast<char>(value));
  const auto tokenizer = make_byte_tokenizer();
  const auto tokens = encode(*tokenizer, all);
  REQUIRE(tokens.size() == 256);
  for (int value = 0; value < 256; ++value) CHECK(tokens[static_cast<size_t>(value)] == value);
  CHECK(tokenizer->decode(tokens) == all);
  CHECK(tokenizer->vocabulary() == 256);
  CHECK(error_of([&] { tokenizer->decode(Token{256}); }).code() == ExitCode::damaged);
  CHECK(error_of([&] { tokenizer->decode(Token{-1}); }).code() == ExitCode::damaged);
}

TEST_CASE("the character tokenizer numbers its alphabet in code-point order") {
  const auto tokenizer = make_char_tokenizer({U'b', U'\u20AC', U'a', U'\U0001F600', U'b', U'\0'});
  CHECK(tokenizer->vocabulary() == 5);
  const std::string text("ab\xE2\x82\xAC\xF0\x9F\x98\x80\0a", 11);
  const auto tokens = encode(*tokenizer, text);
  CHECK(tokens == std::vector<Token>{1, 2, 3, 4, 0, 1});
  CHECK(tokenizer->decode(tokens) == text);
  CHECK(encode(*tokenizer, "").empty());
}

TEST_CASE("text outside the alphabet is refused with the character and its position") {
  const auto tokenizer = make_char_tokenizer({U'a', U'\u20AC'});
  const Error unknown = error_of([&] { encode(*tokenizer, "a\xE2\x82\xAC\xC3\xA9"); });
  CHECK(unknown.code() == ExitCode::usage);
  CHECK(says(unknown, "U+00E9 '\xC3\xA9' at position 2"));
  CHECK(says(error_of([&] { encode(*tokenizer, "aa\xFF"); }), "not valid UTF-8 at byte 2"));
  const std::string long_text = std::string(40, 'a') + "\xE2\x82\xAC" + std::string(21, 'a');
  CHECK(says(error_of([&] { encode(*tokenizer, long_text + "b"); }), "U+0062 'b' at position 62"));
  CHECK(says(error_of([&] { encode(*tokenizer, "b" + long_text); }), "U+0062 'b' at position 0"));
  CHECK(says(error_of([&] { encode(*tokenizer, long_text + "\xFF"); }), "not valid UTF-8 at byte 64"));
  CHECK(encode(*tokenizer, long_text).size() == 62);
  CHECK(error_of([&] { tokenizer->decode(Token{2}); }).code() == ExitCode::damaged);
  CHECK(error_of([] { make_char_tokenizer({}); }).code() == ExitCode::usage);
  CHECK(error_of([] { make_char_tokenizer({0xD800}); }).code() == ExitCode::usage);
}

TEST_CASE("bare ids decode to their number and cannot encode") {
  const auto tokenizer = make_id_tokenizer(50257);
  CHECK(tokenizer->decode({17, 50256}) == "<17><50256>");
  CHECK(error_of([&] { tokenizer->decode(Token{50257}); }).code() == ExitCode::damaged);
  const Error refused = error_of([&] { encode(*tokenizer, "hello"); });
  CHECK(refused.code() == ExitCode::usage);
  CHECK(says(refused, "without a tokenizer"));
  CHECK(error_of([] { make_id_tokenizer(0); }).code() == ExitCode::usage);
  CHECK(error_of([] { make_id_tokenizer(int64_t{1} << 40); }).code() == ExitCode::usage);
}

TEST_CASE("a tokenizer comes back equal from its description") {
  const auto chars = make_char_tokenizer({U'\n', U'"', U'\\', U'\u00E9', U'\0'});
  const auto bytes = make_byte_tokenizer();
  const auto ids = make_id_tokenizer(99);
  for (const Tokenizer* tokenizer : {chars.get(), bytes.get(), ids.get()}) {
    const auto loaded = load_tokenizer(tokenizer->serialize());
    CHECK(loaded->kind() == tokenizer->kind());
    CHECK(loaded->vocabulary() == tokenizer->vocabulary());
    CHECK(loaded->fingerprint() == tokenizer->fingerprint());
    for (Token id = 0; id < tokenizer->vocabulary(); ++id) CHECK(loaded->decode(id) == tokenizer->decode(id));
  }
  CHECK(chars->fingerprint() != make_char_tokenizer({U'\n', U'"', U'\\', U'\u00E9'})->fingerprint());
}

TEST_CASE("what no tokenizer wrote is refused as damaged") {
  for (const char* text :
       {"", "hello", "{}", "[]", "null", R"({"kind":7})", R"({"kind":"words"})", R"({"kind":"chars"})",
        R"({"kind":"chars","alphabet":""})", R"({"alphabet":"ba","kind":"chars"})", R"({"kind":"ids"})",
        R"({"kind":"ids","vocabulary":0})", R"({"kind":"ids","vocabulary":1e18})",
        R"({"kind":"ids","vocabulary":99999999999})", R"({"kind":"bytes","more":1})"}) {
    CAPTURE(text);
    CHECK(error_of([&] { load_tokenizer(text); }).code() == ExitCode::damaged);
  }
}
