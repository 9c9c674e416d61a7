#include "comm/division.hpp"

#include "comm/comm.hpp"

#include <algorithm>

namespace gpt {

Division::Division(int64_t count, int64_t lanes, int64_t nodes, int64_t block)
    : count_(count),
      lanes_(lanes),
      nodes_(nodes),
      part_(count / (lanes * nodes * Comm::alignment) * Comm::alignment),
      piece_(std::max<int64_t>(1, round_up(ceil_div(block, nodes), Comm::alignment))),
      main_blocks_(ceil_div(part_, piece_)) {}

Pieces Division::pieces(Tensor data, int64_t lane, int64_t block) const {
  Pieces result;
  for (int64_t node = 0; node < nodes_; ++node) result.push_back({data.flat(range(lane, node, block))});
  return result;
}

Range Division::range(int64_t lane, int64_t node, int64_t block) const {
  const int64_t index = lane * nodes_ + node;
  if (is_tail(block)) {
    constexpr int64_t cache_line = 16;  // elements: parts of different ranks share none
    const int64_t begin = lanes_ * nodes_ * part_;
    const auto cut = [&](int64_t i) {
      return std::min(count_ - begin,
                      round_up(part_of(count_ - begin, lanes_ * nodes_, i).begin, cache_line));
    };
    return {begin + cut(index), begin + cut(index + 1)};
  }
  const int64_t begin = index * part_;
  return {begin + std::min(part_, block * piece_), begin + std::min(part_, (block + 1) * piece_)};
}

}  // namespace gpt
