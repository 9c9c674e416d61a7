#include "comm/tree_comm.hpp"

#include "base/mpi.hpp"
#include "comm/mpi_group.hpp"

#include <utility>

namespace gpt {
namespace {

/// Rank 0 adds all nodes up, one after the other, and sends the sum to all.
class RootTreeComm final : public TreeComm {
public:
  RootTreeComm(const World& world, const std::vector<Range>& leaves_of_rank)
      : inner_(make_mpi_comm(world.world())), total_(leaves_of_rank.back().end) {
    MPI_Comm duplicate = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(world.world(), &duplicate));
    group_ = CommHandle(duplicate);
    for (const Range& leaves : leaves_of_rank) nodes_of_rank_.push_back(aligned_subtrees(leaves, total_));
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return "tree over " + inner_->name(); }
  void all_reduce(Tensor out, Tensor in, Queue& queue) override { inner_->all_reduce(out, in, queue); }
  void reduce_scatter(Tensor data, Queue& queue) override { inner_->reduce_scatter(data, queue); }
  void all_gather(Tensor data, Queue& queue) override { inner_->all_gather(data, queue); }
  Allocator* allocator() override { return inner_->allocator(); }
  void broadcast(Tensor data, int root, Queue& queue) override { inner_->broadcast(data, root, queue); }
  void barrier(Queue& queue) override { inner_->barrier(queue); }
  Range owned(int64_t count) const override { return inner_->owned(count); }

  void sum_subtrees(Tensor out, std::vector<Tensor> subtrees, Queue& queue) override {
    queue.host([this, out, nodes = std::move(subtrees)] {
      for (const Range& chunk : chunks_of({0, out.size()}, default_chunk)) {
        if (rank() == 0) {
          add_up(out.flat(chunk), nodes, chunk);
        } else {
          for (const Tensor& node : nodes)
            check_mpi(MPI_Send(node.flat(chunk).raw(), static_cast<int>(chunk.size()), MPI_FLOAT, 0, 0,
                               group_.get()));
        }
        check_mpi(
            MPI_Bcast(out.flat(chunk).raw(), static_cast<int>(chunk.size()), MPI_FLOAT, 0, group_.get()));
      }
    });
  }

private:
  void add_up(Tensor out, const std::vector<Tensor>& own, Range chunk) const {
    TreeSums sums(total_);
    std::vector<std::vector<float>> values;
    for (int from = 0; from < size(); ++from) {
      const std::vector<TreeNode>& nodes = nodes_of_rank_[static_cast<size_t>(from)];
      for (size_t i = 0; i < nodes.size(); ++i) {
        std::vector<float>& value = values.emplace_back(static_cast<size_t>(chunk.size()));
        if (from == 0)
          std::copy_n(own[i].flat(chunk).data<float>(), chunk.size(), value.data());
        else
          check_mpi(MPI_Recv(value.data(), static_cast<int>(chunk.size()), MPI_FLOAT, from, 0, group_.get(),
                             MPI_STATUS_IGNORE));
        for (int64_t additions = sums.add(nodes[i]); additions > 0; --additions) {
          std::vector<float>& left = values[values.size() - 2];
          for (size_t k = 0; k < left.size(); ++k) left[k] += values.back()[k];
          values.pop_back();
        }
      }
    }
    std::copy_n(values.front().data(), chunk.size(), out.data<float>());
  }

  std::unique_ptr<Comm> inner_;
  int64_t total_;
  CommHandle group_;
  std::vector<std::vector<TreeNode>> nodes_of_rank_;
};

}  // namespace

std::unique_ptr<TreeComm> make_tree_comm(const World& world, const CommPlan& /*plan*/,
                                         const std::vector<Range>& leaves_of_rank) {
  return std::make_unique<RootTreeComm>(world, leaves_of_rank);
}

}  // namespace gpt
