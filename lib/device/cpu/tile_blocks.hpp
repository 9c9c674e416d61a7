// Products of bfloat16 by matrix tiles (AMX). In assembly, so that kernels of any instruction set may include
// it: the compiler inlines no intrinsic of a processor beyond the caller's set, and g++ 12 does not know that
// its intrinsics read and write memory.
#pragma once

#include "device/cpu/amx.hpp"

#include <cstdint>

namespace gpt {

/// Tiles for the calling thread, of 16 rows of 64 bytes each, from here to the end of the scope. What used
/// tiles before must configure its own anew.
class TileScope {
public:
  TileScope() { asm volatile("ldtilecfg %0" : : "m"(whole_tiles)); }
  ~TileScope() { asm volatile("tilerelease"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

template <int tile>
inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}

/// @param stride  bytes from one row to the next
template <int tile>
inline void load_tile(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void store_tile(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(stride), "i"(tile) : "memory");
}

/// sum(i,j) += Σ over k < 16 of both terms of left(i,k)·right(k,j), words of two bfloat16; sums are f32.
template <int sum, int left, int right>
inline void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(left), "i"(right));
}

/// A matrix of floats, or of words of two bfloat16.
template <class Word>
struct WordMatrix {
  Word* data;
  int64_t stride;  ///< words from one row to the next

  Word* at(int64_t row, int64_t column) const { return data + row * stride + column; }
  int64_t stride_bytes() const { return stride * static_cast<int64_t>(sizeof(Word)); }
};

/// Rows and columns of a block of results: four tiles of sums, so that each operand that is loaded serves
/// two products.
inline constexpr int64_t tile_block = 32;

/// Words of two terms that one product of tiles sums over.
inline constexpr int64_t tile_depth = 16;

/// c = or += a·b for one block.  c (32,32); a (32,depth), b (depth,32) of words; depth is a multiple of
/// tile_depth
inline void multiply_block(WordMatrix<float> c, WordMatrix<const float> a, WordMatrix<const float> b,
                           int64_t depth, bool accumulate) {
  constexpr int64_t half = tile_block / 2;
  if (accumulate) {
    load_tile<0>(c.at(0, 0), c.stride_bytes());
    load_tile<1>(c.at(0, half), c.stride_bytes());
    load_tile<2>(c.at(half, 0), c.stride_bytes());
    load_tile<3>(c.at(half, half), c.stride_bytes());
  } else {
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
  }
  for (int64_t k = 0; k < depth; k += tile_depth) {
    load_tile<4>(a.at(0, k), a.stride_bytes());
    load_tile<6>(b.at(k, 0), b.stride_bytes());
    load_tile<5>(a.at(half, k), a.stride_bytes());
    load_tile<7>(b.at(k, half), b.stride_bytes());
    multiply_tiles<0, 4, 6>();
    multiply_tiles<1, 4, 7>();
    multiply_tiles<2, 5, 6>();
    multiply_tiles<3, 5, 7>();
  }
  store_tile<0>(c.at(0, 0), c.stride_bytes());
  store_tile<1>(c.at(0, half), c.stride_bytes());
  store_tile<2>(c.at(half, 0), c.stride_bytes());
  store_tile<3>(c.at(half, half), c.stride_bytes());
}

/// The same for c (rows,columns), multiples of tile_block.
inline void multiply_blocks(WordMatrix<float> c, WordMatrix<const float> a, WordMatrix<const float> b,
                            int64_t rows, int64_t columns, int64_t depth, bool accumulate) {
  for (int64_t j = 0; j < columns; j += tile_block)
    for (int64_t i = 0; i < rows; i += tile_block)
      multiply_block({c.at(i, j), c.stride}, {a.at(i, 0), a.stride}, {b.at(0, j), b.stride}, depth,
                     accumulate);
}

}  // namespace gpt
