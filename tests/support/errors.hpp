#pragma once

#include "base/error.hpp"

#include <doctest/doctest.h>
#include <functional>
#include <string>

namespace gpt::test {

/// The message of the Error that `work` throws, whose code is checked; empty if it throws nothing.
inline std::string failure(ExitCode code, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return {};
}

/// Checks that `part` is in `message`.
inline bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  CAPTURE(part);
  const bool found = message.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace gpt::test
