#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

/// Whether a file that an option names can be written, tried before minutes of measuring: nothing is changed
/// that was there, and what was not there is not there afterwards. Nothing to try where `path` is empty.
/// @throws Error(usage) with option, file and reason
void check_output_file(const std::string& option, const std::string& path);

/// @throws Error(failed) naming the file
void write_json(const std::string& path, const nlohmann::json& json);

}  // namespace gpt
