#pragma once

#include <cstdint>

namespace gpt {

/// How heads lie in activations. Head i of a batch is head i % heads of sequence i / heads.
struct HeadShape {
  int64_t positions = 0;  ///< T
  int64_t heads = 0;      ///< H
  int64_t head_size = 0;  ///< D

  constexpr int64_t width() const { return heads * head_size; }
  constexpr int64_t elements() const { return positions * head_size; }  ///< of one head
};

}  // namespace gpt
