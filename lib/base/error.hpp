#pragma once

#include "base/exit_code.hpp"

#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace gpt {

/// The one exception of this project: a message for a person (what, where, what to do) and an exit code.
class Error : public std::runtime_error {
public:
  explicit Error(std::string message, ExitCode code = ExitCode::failed)
      : std::runtime_error(std::move(message)), code_(code) {}

  ExitCode code() const { return code_; }

private:
  ExitCode code_;
};

/// Throws Error(`code`) with the formatted message unless `ok`. Always compiled in: for what comes from
/// outside.
template <class... Args>
void validate(bool ok, ExitCode code, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) throw Error(fmt::format(message, std::forward<Args>(args)...), code);
}

/// The same for values that a user chose: exit code `usage`.
template <class... Args>
void validate(bool ok, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) throw Error(fmt::format(message, std::forward<Args>(args)...), ExitCode::usage);
}

}  // namespace gpt
