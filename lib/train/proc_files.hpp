#pragma once

#include <cstdint>
#include <string>

namespace gpt {

/// The bytes that a file of lines "name value kB" gives behind `name`, as /proc/meminfo and /proc/self/status
/// do; 0 if there is none.
int64_t bytes_in(const std::string& path, const std::string& name);

}  // namespace gpt
