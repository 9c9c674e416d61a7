#include "option_values.hpp"

#include "base/error.hpp"

#include <charconv>
#include <limits>
#include <string_view>

namespace gpt {
namespace {

namespace po = boost::program_options;

/// What "--name" or "--name=value" names; null if it is no option.
const po::option_description* option_named(const std::string& word, const po::options_description& options) {
  if (!word.starts_with("--")) return nullptr;
  return options.find_nothrow(word.substr(2, word.find('=') - 2), false);
}

std::string value_name(const po::option_description& option) {
  const std::string name = option.semantic()->name();  // with the default: "BYTES (=4)"
  return name.starts_with("arg") ? "VALUE" : name.substr(0, name.find(" ("));
}

}  // namespace

void check_values_follow(const std::vector<std::string>& arguments, const po::options_description& options) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const po::option_description* const option = option_named(word, options);
    if (option == nullptr || word.find('=') != std::string::npos) continue;
    if (option->semantic()->min_tokens() == 0) continue;
    const bool is_last = i + 1 == arguments.size();
    validate(!is_last && option_named(arguments[i + 1], options) == nullptr,
             "{} lacks its value{}: write {} {}", word,
             is_last ? "" : fmt::format(" before {}", arguments[i + 1]), word, value_name(*option));
    ++i;
  }
}

uint64_t parse_seed(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, seed);
  validate(error == std::errc() && parsed == end, "--seed {}: use a whole number from 0 to {}", text,
           std::numeric_limits<uint64_t>::max());
  return seed;
}

std::string unescape(const std::string& option, const std::string& text) {
  constexpr std::string_view names = "nt\\", meanings = "\n\t\\";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const size_t which = ++i < text.size() ? names.find(text[i]) : std::string_view::npos;
    validate(which != std::string_view::npos,
             "--{} {}: a backslash stands in \\n, \\t or \\\\ only: write \\\\ for the character itself",
             option, text);
    out += meanings[which];
  }
  return out;
}

}  // namespace gpt
