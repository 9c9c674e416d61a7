#pragma once

#include "device/dtype.hpp"

#include <string_view>

namespace gpt {

/// The type of activations and of what matrix products read: "fp32" or "bf16".
/// @throws Error(usage) naming --precision and what is allowed
DType precision_named(std::string_view name);

/// @param type  f32 or bf16
std::string_view name_of_precision(DType type);

}  // namespace gpt
