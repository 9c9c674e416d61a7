#pragma once

#include <array>
#include <cstdint>

namespace gpt {

/// Whether products may use matrix tiles (AMX) of bfloat16: the processor has them, Linux gives them to this
/// process, and ONEDNN_MAX_CPU_ISA does not hold them back from oneDNN.
bool has_tiles();

/// The shape of tiles as the processor reads it ("Tile configuration" in Intel's manual, volume 1, section
/// 18.3): eight of 16 rows of 64 bytes, the most there is.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  std::array<uint8_t, 14> reserved{};
  std::array<uint16_t, 16> row_bytes{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<uint8_t, 16> rows{16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

inline constexpr TileConfig whole_tiles{};

}  // namespace gpt
