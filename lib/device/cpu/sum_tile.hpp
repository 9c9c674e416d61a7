#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>

namespace gpt {

enum class TileWrite { assign, add };
enum class TileRounding { none, bf16 };

/// tile (n floats) = or += the source.
void read_tile(float* tile, const float* source, int64_t n, TileWrite write, TileRounding rounding);
void read_tile(float* tile, const bfloat16* source, int64_t n, TileWrite write);

/// out = a + b. Both are read side by side, which keeps more of memory busy than one after the other.
void add_arrays(float* out, const float* a, const float* b, int64_t n);

/// Rounded to bf16 and kept as f32, if asked.
void write_tile(float* out, const float* tile, int64_t n, TileRounding rounding);
void write_tile(bfloat16* out, const float* tile, int64_t n);

}  // namespace gpt
