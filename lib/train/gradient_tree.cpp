#include "train/gradient_tree.hpp"

#include "base/contracts.hpp"

namespace gpt {

GradientTree::GradientTree(Device& device, Tensor gradients, Range leaves, int64_t total)
    : ops_(device.ops()),
      gradients_(gradients),
      leaves_(leaves),
      total_(total),
      losses_(device, DType::f64, {total}),
      sums_(total),
      next_(leaves.begin) {
  expects(!leaves.empty());
  for (int64_t i = most_held_subtrees(leaves, total); i > 0; --i)
    buffers_.emplace_back(device, DType::f32, std::initializer_list<int64_t>{gradients.size()});
}

void GradientTree::take_leaf(Queue& compute) {
  expects(next_ + 1 < leaves_.end);
  size_t last = sums_.nodes().size();
  int64_t additions = sums_.add({.level = 0, .index = next_++});
  if (additions == 0) {
    compute.copy(buffers_[last], gradients_);
    return;
  }
  ops_.add(buffers_[--last], gradients_, compute);
  for (; additions > 1; --additions, --last) ops_.add(buffers_[last - 1], buffers_[last], compute);
}

std::vector<Tensor> GradientTree::subtrees(Range bucket, Queue& compute) {
  expects(next_ + 1 == leaves_.end);
  const Tensor last = gradients_.flat(bucket);
  TreeSums all = sums_;
  size_t held = sums_.nodes().size();
  for (int64_t additions = all.add({.level = 0, .index = next_}); additions > 0; --additions)
    ops_.add(last, buffers_[--held]->flat(bucket), compute);
  std::vector<Tensor> nodes;
  for (size_t i = 0; i < held; ++i) nodes.push_back(buffers_[i]->flat(bucket));
  nodes.push_back(last);
  return nodes;
}

void GradientTree::restart() {
  sums_ = TreeSums(total_);
  next_ = leaves_.begin;
}

}  // namespace gpt
