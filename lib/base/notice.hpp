#pragma once

#include <string_view>

namespace gpt {

/// A line on standard error, in one write, so that lines of several ranks do not mix. A standard error that
/// takes nothing (closed, full) is no reason to stop: never throws.
void notice(std::string_view line) noexcept;

}  // namespace gpt
