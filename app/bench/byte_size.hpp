#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// "4", "32K", "128M" or "128MiB", "2G": bytes in powers of 1024. @throws Error(usage) naming `option`
int64_t parse_bytes(std::string_view option, std::string_view text);

/// "a,b,c" as its parts. @throws Error(usage) naming `option` if one is empty
std::vector<std::string> split_list(std::string_view option, std::string_view text);

}  // namespace gpt
