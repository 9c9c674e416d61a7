#pragma once

#include "base/integers.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// A sum in the one binary tree over the leaves 0…total−1 of a global batch, in which neighbours add first:
/// node(0, i) = leaf i; node(level, i) = node(level−1, 2i) + node(level−1, 2i+1), and the left child alone
/// where the right one has no leaves. The tree is a function of the number of leaves only: whoever holds
/// which leaves, sums formed along it have the same bits.
struct TreeNode {
  int64_t level = 0;
  int64_t index = 0;

  bool operator==(const TreeNode&) const = default;
};

/// The node that is the sum of all leaves. @param total  at least 1
TreeNode root_of_tree(int64_t total);

/// The leaves that a node is the sum of.
Range leaves_of(const TreeNode& node, int64_t total);

/// Nodes with consecutive leaves, given from left to right, and what becomes of them: neighbours that make up
/// a node of the tree are added at once. A node that equals its parent, for want of a right child, counts as
/// the parent.
class TreeSums {
public:
  /// @param total  leaves of the whole tree, at least 1
  explicit TreeSums(int64_t total);

  /// Puts `node` to the right of the others. Returns how many times the two last nodes are then added and
  /// replaced by their sum.
  int64_t add(TreeNode node);

  /// From left to right.
  const std::vector<TreeNode>& nodes() const { return nodes_; }

private:
  TreeNode highest_equal(TreeNode node) const;

  int64_t total_;
  int64_t root_level_;
  std::vector<TreeNode> nodes_;
};

/// The fewest nodes that `leaves` are the sums of, from left to right: what a rank with these leaves can form
/// alone. One node if `leaves` is a power of two of them at a multiple of it; none for no leaves.
std::vector<TreeNode> aligned_subtrees(Range leaves, int64_t total);

/// Nodes beside the last leaf's that a rank holds at most while it adds up `leaves` one after the other.
int64_t most_held_subtrees(Range leaves, int64_t total);

}  // namespace gpt
