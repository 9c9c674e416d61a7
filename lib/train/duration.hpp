#pragma once

#include <optional>
#include <string_view>

namespace gpt {

/// Seconds of "90", "90s", "1.5m", "12h" or "7d"; nothing if the text is none of these, or not above 0.
std::optional<double> parse_duration(std::string_view text);

}  // namespace gpt
