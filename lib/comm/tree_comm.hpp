#pragma once

#include "comm/comm.hpp"
#include "comm/reduction_tree.hpp"

#include <memory>
#include <vector>

namespace gpt {

/// Sums of leaves along the tree of reduction_tree.hpp, which have the same bits whichever ranks hold which
/// leaves.
class TreeComm : public Comm {
public:
  /// out = the sum of all ranks' leaves, on every rank. This rank gives the nodes aligned_subtrees(its
  /// leaves), lowest leaves first, as `subtrees` of out's size; they are undefined afterwards, and the last
  /// may be `out`. f32.
  virtual void sum_subtrees(Tensor out, std::vector<Tensor> subtrees, Queue&) = 0;
};

/// Collective over the world. @param leaves_of_rank  consecutive, by rank, at least one each
std::unique_ptr<TreeComm> make_tree_comm(const World& world, const CommPlan& plan,
                                         const std::vector<Range>& leaves_of_rank);

}  // namespace gpt
