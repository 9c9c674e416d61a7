#include "comm/reduction_tree.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <vector>

using namespace gpt;

namespace {

/// The tree by its definition.
float sum_of(const TreeNode& node, const std::vector<float>& leaves) {
  const auto total = static_cast<int64_t>(leaves.size());
  if (node.level == 0) return leaves[static_cast<size_t>(node.index)];
  const TreeNode left{node.level - 1, 2 * node.index}, right{node.level - 1, 2 * node.index + 1};
  const float sum = sum_of(left, leaves);
  return leaves_of(right, total).empty() ? sum : sum + sum_of(right, leaves);
}

std::vector<float> values(int64_t count) {
  std::vector<float> leaves;
  for (int64_t i = 0; i < count; ++i) leaves.push_back(std::sin(static_cast<float>(i * i) + 0.3F));
  return leaves;
}

/// A value for every node, kept as a rank keeps its buffers.
class Accumulator {
public:
  explicit Accumulator(int64_t total) : sums_(total) {}

  void add(const TreeNode& node, float value) {
    values_.push_back(value);
    for (int64_t i = sums_.add(node); i > 0; --i) {
      const float right = values_.back();
      values_.pop_back();
      values_.back() += right;
    }
  }
  const TreeSums& sums() const { return sums_; }
  const std::vector<float>& values() const { return values_; }

private:
  TreeSums sums_;
  std::vector<float> values_;
};

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

}  // namespace

TEST_CASE("nodes of the reduction tree cover their leaves") {
  CHECK(root_of_tree(1) == TreeNode{0, 0});
  CHECK(root_of_tree(2) == TreeNode{1, 0});
  CHECK(root_of_tree(5) == TreeNode{3, 0});
  CHECK(root_of_tree(8) == TreeNode{3, 0});
  CHECK(leaves_of({1, 2}, 8) == Range{4, 6});
  CHECK(leaves_of({2, 1}, 5) == Range{4, 5});
  CHECK(leaves_of({0, 7}, 5).empty());
}

TEST_CASE("a rank's leaves make up the fewest nodes") {
  using Nodes = std::vector<TreeNode>;
  CHECK(aligned_subtrees({0, 8}, 8) == Nodes{{3, 0}});
  CHECK(aligned_subtrees({4, 6}, 8) == Nodes{{1, 2}});
  CHECK(aligned_subtrees({1, 7}, 8) == Nodes{{0, 1}, {1, 1}, {1, 2}, {0, 6}});
  CHECK(aligned_subtrees({3, 3}, 8).empty());
  // The last leaf of five has no neighbour on two levels.
  CHECK(aligned_subtrees({4, 5}, 5) == Nodes{{2, 1}});
  CHECK(aligned_subtrees({0, 5}, 5) == Nodes{{3, 0}});
  CHECK(aligned_subtrees({4, 6}, 6) == Nodes{{2, 1}});
  CHECK(aligned_subtrees({0, 1}, 1) == Nodes{{0, 0}});
}

TEST_CASE(
    "powers of two of ranks hold one node each, and few more buffers than the logarithm of its leaves") {
  for (int64_t total : {8, 16, 64})
    for (int64_t ranks : {1, 2, 4, 8})
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Range leaves = part_of(total, ranks, rank);
        CHECK(aligned_subtrees(leaves, total).size() == 1);
        CHECK(most_held_subtrees(leaves, total) == std::countr_zero(static_cast<uint64_t>(leaves.size())));
      }
  CHECK(most_held_subtrees({5, 5}, 8) == 0);
  CHECK(most_held_subtrees({1, 7}, 8) == 3);
}

TEST_CASE("sums along the tree have the same bits whoever holds which leaves") {
  for (int64_t total = 1; total <= 21; ++total) {
    const std::vector<float> leaves = values(total);
    const float expected = sum_of(root_of_tree(total), leaves);
    for (int64_t ranks = 1; ranks <= total; ++ranks) {
      CAPTURE(total);
      CAPTURE(ranks);
      Accumulator all(total);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Range mine = part_of(total, ranks, rank);
        Accumulator own(total);
        for (int64_t leaf = mine.begin; leaf < mine.end; ++leaf)
          own.add({0, leaf}, leaves[static_cast<size_t>(leaf)]);
        const std::vector<TreeNode> nodes = aligned_subtrees(mine, total);
        CHECK(own.sums().nodes() == nodes);
        for (size_t i = 0; i < nodes.size(); ++i) {
          CHECK(same_bits(own.values()[i], sum_of(nodes[i], leaves)));
          all.add(nodes[i], own.values()[i]);
        }
      }
      REQUIRE(all.values().size() == 1);
      CHECK(all.sums().nodes().front() == root_of_tree(total));
      CHECK(same_bits(all.values().front(), expected));
    }
  }
}
