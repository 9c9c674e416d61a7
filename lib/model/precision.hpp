#pragma once

#include "device/dtype.hpp"

#include <string_view>

namespace gpt {

/// The type of activations and of what matrix products read: "fp32" or "bf16".
/// @throws Error(usage) naming --precision and what is allowed
DType precision_named(std::string_view name);

/// Whether f32 weights become bf16 by stochastic rounding: "stochastic"; or to nearest: "nearest".
/// @param type  of what matrix products read
/// @throws Error(usage) naming --rounding and what is allowed, also where it would round nothing
bool rounds_stochastically(std::string_view name, DType type);

/// @param type  f32 or bf16
std::string_view name_of_precision(DType type);

}  // namespace gpt
