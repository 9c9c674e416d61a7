#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace gpt {

/// One code point at the start of a text. `length` is in bytes; 0 when there is none.
struct Utf8Char {
  char32_t code = 0;
  int length = 0;
  bool truncated = false;  ///< length is 0 only because the text ends inside a character that is valid so far
};

/// first_utf8 for a text that does not begin with ASCII.
Utf8Char first_multibyte_utf8(std::string_view text);

/// The first code point of `text` (not empty), by the strict rules of RFC 3629: no overlong forms, no
/// surrogates, nothing above U+10FFFF.
inline Utf8Char first_utf8(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  return lead < 0x80 ? Utf8Char{lead, 1, false} : first_multibyte_utf8(text);
}

/// How many bytes stand before the first one that is not ASCII.
inline size_t ascii_prefix(std::string_view text) {
  constexpr uint64_t high_bits = 0x8080808080808080;
  size_t at = 0;
  for (uint64_t eight = 0; at + sizeof eight <= text.size(); at += sizeof eight) {
    std::memcpy(&eight, text.data() + at, sizeof eight);
    if ((eight & high_bits) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

/// A Unicode scalar value: what UTF-8 can hold.
constexpr bool is_scalar(char32_t code) { return code < 0xD800 || (code > 0xDFFF && code <= 0x10FFFF); }

/// Whether `text` is UTF-8 from beginning to end.
bool is_utf8(std::string_view text);

/// How much of `text` is left without a character that is cut off at its end.
size_t whole_characters(std::string_view text);

void append_utf8(std::string& out, char32_t code);

/// For messages: "U+00E9 'é'", without the quoted part for control characters.
std::string describe_char(char32_t code);

}  // namespace gpt
