#include "train/duration.hpp"

#include <charconv>
#include <cmath>

namespace gpt {
namespace {

/// Seconds of a unit; 0: there is no such unit.
double seconds_of(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m") return 60;
  if (unit == "h") return 60 * 60;
  if (unit == "d") return 24 * 60 * 60;
  return 0;
}

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const double seconds = number * seconds_of({parsed, static_cast<size_t>(end - parsed)});
  return std::isfinite(seconds) && seconds > 0 ? std::optional(seconds) : std::nullopt;
}

}  // namespace gpt
