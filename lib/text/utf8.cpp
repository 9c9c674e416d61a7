#include "text/utf8.hpp"

#include "base/contracts.hpp"

#include <fmt/format.h>

namespace gpt {

Utf8Char first_multibyte_utf8(std::string_view text) {
  expects(!text.empty());
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return {};

  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range is what excludes overlong forms, surrogates and codes above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) == text.size()) return {0, 0, true};
    const unsigned next = byte(static_cast<size_t>(i));
    if (next < (i == 1 ? low : 0x80u) || next > (i == 1 ? high : 0xBFu)) return {};
    code = code << 6 | (next & 0x3F);
  }
  return {code, length, false};
}

size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view last = text.substr(text.size() - back);
    const bool continues = (static_cast<unsigned char>(last.front()) & 0xC0) == 0x80;
    if (!continues) return first_utf8(last).truncated ? text.size() - back : text.size();
  }
  return text.size();
}

void append_utf8(std::string& out, char32_t code) {
  expects(is_scalar(code));
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string describe_char(char32_t code) {
  std::string text = fmt::format("U+{:04X}", static_cast<uint32_t>(code));
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  if (!control) {
    text += " '";
    append_utf8(text, code);
    text += "'";
  }
  return text;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const int length = first_utf8(text).length;
    if (length == 0) return false;
    text.remove_prefix(static_cast<size_t>(length));
  }
  return true;
}

}  // namespace gpt
