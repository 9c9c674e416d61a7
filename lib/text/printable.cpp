#include "text/printable.hpp"

#include "text/utf8.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace gpt {
namespace {

std::string escape(std::string_view text, std::string_view allowed) {
  std::string out;
  while (!text.empty()) {
    const Utf8Char next = first_utf8(text);
    const bool control = next.code < 0x20 || (next.code >= 0x7F && next.code < 0xA0);
    const std::string_view bytes = text.substr(0, static_cast<size_t>(std::max(next.length, 1)));
    if (allowed.find(bytes) != std::string_view::npos || (next.length > 0 && !control)) {
      out += bytes;
    } else {
      for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(bytes.size());
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escape(text, "\n\t"); }

std::string printable_line(std::string_view text) { return escape(text, ""); }

}  // namespace gpt
