#pragma once

#include <string>

namespace gpt {

/// `program`, its version, and of every library the version compiled against and the one loaded.
std::string version_text(const std::string& program);

}  // namespace gpt
