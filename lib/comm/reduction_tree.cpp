#include "comm/reduction_tree.hpp"

#include "base/contracts.hpp"

#include <algorithm>

namespace gpt {
namespace {

bool has_right_sibling(const TreeNode& node, int64_t total) {
  return node.index % 2 == 0 && (node.index + 1) << node.level < total;
}

bool are_siblings(const TreeNode& left, const TreeNode& right) {
  return left.level == right.level && left.index % 2 == 0 && right.index == left.index + 1;
}

}  // namespace

TreeNode root_of_tree(int64_t total) {
  expects(total >= 1);
  int64_t level = 0;
  while (int64_t{1} << level < total) ++level;
  return {.level = level, .index = 0};
}

Range leaves_of(const TreeNode& node, int64_t total) {
  return {std::min(node.index << node.level, total), std::min((node.index + 1) << node.level, total)};
}

TreeSums::TreeSums(int64_t total) : total_(total), root_level_(root_of_tree(total).level) {}

TreeNode TreeSums::highest_equal(TreeNode node) const {
  while (node.level < root_level_ && node.index % 2 == 0 && !has_right_sibling(node, total_))
    node = {.level = node.level + 1, .index = node.index / 2};
  return node;
}

int64_t TreeSums::add(TreeNode node) {
  expects(!leaves_of(node, total_).empty());
  expects(nodes_.empty() || leaves_of(nodes_.back(), total_).end == leaves_of(node, total_).begin);
  int64_t additions = 0;
  node = highest_equal(node);
  while (!nodes_.empty() && are_siblings(nodes_.back(), node)) {
    node = highest_equal({.level = node.level + 1, .index = node.index / 2});
    nodes_.pop_back();
    ++additions;
  }
  nodes_.push_back(node);
  return additions;
}

std::vector<TreeNode> aligned_subtrees(Range leaves, int64_t total) {
  expects(leaves.begin >= 0 && leaves.end <= total);
  TreeSums sums(total);
  for (int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) sums.add({.level = 0, .index = leaf});
  return sums.nodes();
}

int64_t most_held_subtrees(Range leaves, int64_t total) {
  TreeSums sums(total);
  int64_t most = 0;
  for (int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
    most = std::max(most, static_cast<int64_t>(sums.nodes().size()));
    sums.add({.level = 0, .index = leaf});
  }
  return most;
}

}  // namespace gpt
