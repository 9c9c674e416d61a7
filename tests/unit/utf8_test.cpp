#include "text/utf8.hpp"

#include <doctest/doctest.h>

using namespace gpt;

TEST_CASE("every Unicode scalar value passes through UTF-8") {
  bool all = true;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (!is_scalar(code)) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Char read = first_utf8(text + "x");
    all = all && (read.code == code);
    all = all && (read.length == static_cast<int>(text.size()));
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Char part = first_utf8(text.substr(0, cut));
      all = all && (part.length == 0);
      all = all && (part.truncated);
      all = all && (whole_characters("ab" + text.substr(0, cut)) == 2);
    }
    all = all && (whole_characters(text) == text.size());
    if (!all) FAIL(describe_char(code));
  }
}

TEST_CASE("the ASCII before the first other byte is counted, wherever that stands") {
  const std::string ascii("ab\0\x7F\n.defghijklmnopqrs", 22);
  for (size_t length = 0; length <= ascii.size(); ++length) {
    CHECK(ascii_prefix(ascii.substr(0, length)) == length);
    for (size_t at = 0; at < length; ++at) {
      std::string text = ascii.substr(0, length);
      text[at] = '\x80';
      CHECK(ascii_prefix(text) == at);
      text.back() = '\xFF';
      CHECK(ascii_prefix(text) == at);
    }
  }
}

TEST_CASE("what RFC 3629 forbids is no character") {
  for (const char* bad : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                          "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF",
                          "\xC3(", "\xE2\x82(", "\xF0\x9F\x98("}) {
    CAPTURE(bad);
    const Utf8Char read = first_utf8(bad);
    CHECK(read.length == 0);
    CHECK(!read.truncated);
  }
  CHECK(!first_utf8("\xED\xA0").truncated);  // already a surrogate, whatever follows
  CHECK(!first_utf8("\xE0\x80").truncated);
}

TEST_CASE("characters are described for people, control characters by number only") {
  CHECK(describe_char(U'\u00E9') == "U+00E9 '\xC3\xA9'");
  CHECK(describe_char(U'\n') == "U+000A");
  CHECK(describe_char(0x9B) == "U+009B");
}
