#pragma once

#include "comm/reduction_tree.hpp"
#include "device/device.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// Adds up a rank's leaves (micro-batches) along the reduction tree: each leaf's gradients are written into
/// `gradients` and added to their neighbours' in buffers of their own, so that every leaf's gradients stay
/// whole.
class GradientTree {
public:
  /// @param leaves  this rank's, of `total`; at least one
  GradientTree(Device& device, Tensor gradients, Range leaves, int64_t total);

  /// What it takes beside `gradients`.
  int64_t bytes() const { return static_cast<int64_t>(buffers_.size()) * gradients_.bytes(); }

  /// That subtrees() returns for a bucket, at most.
  int64_t most_subtrees() const { return std::ssize(buffers_) + 1; }

  /// `gradients` hold the next leaf's, which is not the last: they are taken over, and may be overwritten.
  void take_leaf(Queue& compute);

  /// Of `bucket` the last leaf's gradients are complete: adds what is complete then, and returns this rank's
  /// nodes of the tree there, lowest leaves first, for Comm::sum; the last of them is in `gradients`.
  std::vector<Tensor> subtrees(Range bucket, Queue& compute);

  /// The next leaf is the first one again.
  void restart();

  /// f64, one element for each leaf of the batch, for their losses; this rank's stand at `leaves`.
  Tensor losses() const { return losses_; }
  /// Where the next leaf's loss goes.
  Tensor next_loss() const { return losses_->flat({next_, next_ + 1}); }

private:
  Ops& ops_;
  Tensor gradients_;
  Range leaves_;
  int64_t total_;
  std::vector<TensorBuffer> buffers_;  // of the nodes in sums_, and unused ones behind
  TensorBuffer losses_;
  TreeSums sums_;
  int64_t next_;  // leaf
};

}  // namespace gpt
