#pragma once

#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace gpt {

/// To standard output, whose errors check_output() finds.
template <class... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  const std::string line = fmt::format(text, std::forward<Args>(args)...);
  std::fwrite(line.data(), 1, line.size(), stdout);
}

/// @throws Error(failed) unless all that was printed has arrived
void check_output();

}  // namespace gpt
