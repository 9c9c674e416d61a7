#include "model/recompute.hpp"

#include "base/error.hpp"

#include <fmt/ranges.h>

namespace gpt {

std::vector<std::string_view> recompute_names() { return {"none", "attention", "block"}; }

Recompute recompute_named(std::string_view name) {
  const std::vector<std::string_view> names = recompute_names();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Recompute>(i);
  throw Error(fmt::format("--recompute {}: use {}", name, fmt::join(names, ", ")), ExitCode::usage);
}

}  // namespace gpt
