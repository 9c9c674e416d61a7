#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>

namespace gpt {

enum class TileWrite { assign, add };
enum class TileRounding { none, bf16 };

/// tile (n floats) = or += the source.
void read_tile(float* tile, const float* source, int64_t n, TileWrite write, TileRounding rounding);
void read_tile(float* tile, const bfloat16* source, int64_t n, TileWrite write);

/// Rounded to bf16 and kept as f32, if asked.
void write_tile(float* out, const float* tile, int64_t n, TileRounding rounding);

}  // namespace gpt
