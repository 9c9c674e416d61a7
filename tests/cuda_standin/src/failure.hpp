#pragma once

#include <fmt/format.h>
#include <string>

namespace standin {

/// What is done with a mistake that the stand-in finds in the code under test. The default prints it and
/// aborts. The stand-in's own tests throw instead; that works for mistakes found outside of kernels.
using FailureHandler = void (*)(const std::string& problem);
void set_failure_handler(FailureHandler handler);

/// Reports a mistake of the code under test; does not return.
[[noreturn]] void fail(const std::string& problem);

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  fail(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace standin
