#pragma once

#include <source_location>

namespace gpt {

/// Ends the program naming the caller's line: a contract of our own code is broken.
[[noreturn]] void contract_broken(const char* kind, const std::source_location& where);

/// A caller's duty. Checked in debug and sanitizer builds only.
constexpr void expects([[maybe_unused]] bool ok,
                       [[maybe_unused]] const std::source_location& where = std::source_location::current()) {
#ifndef NDEBUG
  if (!ok) contract_broken("precondition", where);
#endif
}

/// A function's promise. Checked in debug and sanitizer builds only.
constexpr void ensures([[maybe_unused]] bool ok,
                       [[maybe_unused]] const std::source_location& where = std::source_location::current()) {
#ifndef NDEBUG
  if (!ok) contract_broken("postcondition", where);
#endif
}

}  // namespace gpt
