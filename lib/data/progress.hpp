#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace gpt {

/// Called now and then by long jobs: what is being done, how much of it, out of how much.
using Progress = std::function<void(std::string_view phase, int64_t done, int64_t total)>;

inline void no_progress(std::string_view, int64_t, int64_t) {}

}  // namespace gpt
