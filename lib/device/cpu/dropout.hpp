#pragma once

#include "device/dropout_plan.hpp"

#include <cstdint>

namespace gpt {

/// Floats that the factors of a run of elements may need beyond their number: blocks are written whole.
constexpr int64_t dropout_slack = 64;

}  // namespace gpt
