#pragma once

#include "base/integers.hpp"
#include "comm/exchange.hpp"
#include "device/tensor.hpp"

#include <cstdint>

namespace gpt {

/// How `count` elements are divided over lanes, the nodes of a lane, and the blocks of a pipeline.
///
///     | lane 0: node 0 | node 1 | … | lane 1: node 0 | node 1 | … | tail |
///
/// Parts are equal and a multiple of Comm::alignment. A block takes the same range of every part; the tail is
/// a block of its own. What a part is does not depend on the size of blocks.
class Division {
public:
  /// @param block  elements of a lane that one block takes, at least
  Division(int64_t count, int64_t lanes, int64_t nodes, int64_t block);

  int64_t part_size() const { return part_; }
  int64_t blocks() const { return main_blocks_ + (has_tail() ? 1 : 0); }
  bool is_tail(int64_t block) const { return block >= main_blocks_; }

  /// A lane's pieces of a block, by node.
  Pieces pieces(Tensor data, int64_t lane, int64_t block) const;

private:
  bool has_tail() const { return count_ > lanes_ * nodes_ * part_; }
  Range range(int64_t lane, int64_t node, int64_t block) const;

  int64_t count_, lanes_, nodes_;
  int64_t part_;
  int64_t piece_;  // elements of a part that a block takes
  int64_t main_blocks_;
};

}  // namespace gpt
