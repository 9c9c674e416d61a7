#include "bench/byte_size.hpp"

#include "base/error.hpp"

#include <charconv>
#include <limits>

namespace gpt {

int64_t parse_bytes(std::string_view option, std::string_view text) {
  constexpr std::string_view suffixes = "KMG";
  std::string_view digits = text;
  int64_t unit = 1;
  const bool is_spelt_out = digits.ends_with("iB");
  if (is_spelt_out) digits.remove_suffix(2);
  if (!digits.empty() && suffixes.find(digits.back()) != std::string_view::npos) {
    unit = int64_t{1} << (10 * (suffixes.find(digits.back()) + 1));
    digits.remove_suffix(1);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  validate(!(is_spelt_out && unit == 1) && error == std::errc() && end == digits.data() + digits.size() &&
               value >= 0 && value <= std::numeric_limits<int64_t>::max() / unit,
           "--{} {}: use bytes, as in 4, 32K, 128M or 2G (powers of 1024; KiB, MiB, GiB are the same)",
           option, text);
  return value * unit;
}

std::vector<std::string> split_list(std::string_view option, std::string_view text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t comma = text.find(',', begin);
    parts.emplace_back(text.substr(begin, comma - begin));
    validate(!parts.back().empty(), "--{} '{}': give a list, as in a,b", option, text);
    if (comma == std::string_view::npos) return parts;
    begin = comma + 1;
  }
}

}  // namespace gpt
