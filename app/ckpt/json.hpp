#pragma once

#include <nlohmann/json_fwd.hpp>

namespace gpt {

/// One JSON value to standard output, for scripts. What is no UTF-8 in it is replaced.
void print_json(const nlohmann::json& json);

}  // namespace gpt
