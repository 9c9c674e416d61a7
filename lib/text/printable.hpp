#pragma once

#include <string>
#include <string_view>

namespace gpt {

/// Text with LF and TAB as a terminal may get it: other control characters, and bytes that are no UTF-8,
/// stand as \xNN.
std::string printable(std::string_view text);

/// The same in one line: LF and TAB stand as \xNN, too.
std::string printable_line(std::string_view text);

}  // namespace gpt
