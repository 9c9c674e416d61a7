#include "comm/tree_comm.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "comm/division.hpp"
#include "comm/exchange.hpp"
#include "comm/hierarchical_comm.hpp"
#include "comm/pipeline.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace gpt {
namespace {

using Subtrees = std::vector<std::vector<TreeNode>>;  // by rank

Subtrees subtrees_of(const std::vector<Range>& leaves_of_rank) {
  Subtrees result;
  for (const Range& leaves : leaves_of_rank)
    result.push_back(aligned_subtrees(leaves, leaves_of_rank.back().end));
  return result;
}

/// Whether rank r holds node r of one level.
bool are_uniform(const Subtrees& subtrees) {
  const int64_t level = subtrees.front().front().level;
  for (size_t rank = 0; rank < subtrees.size(); ++rank) {
    const std::vector<TreeNode> only = {{.level = level, .index = static_cast<int64_t>(rank)}};
    if (subtrees[rank] != only) return false;
  }
  return true;
}

/// Puts the sum of `node` on top of the stack; `held` are the nodes to be had, left to right, `next` the
/// first not yet used.
void append_node(SumOrder& order, const TreeNode& node, const std::vector<TreeNode>& held, size_t& next,
                 int64_t total) {
  const Range leaves = leaves_of(node, total);
  if (leaves == leaves_of(held[next], total)) {
    order.push_back(static_cast<int>(next++));
    return;
  }
  append_node(order, {.level = node.level - 1, .index = 2 * node.index}, held, next, total);
  const TreeNode right{.level = node.level - 1, .index = 2 * node.index + 1};
  if (leaves_of(right, total).empty()) return;
  append_node(order, right, held, next, total);
  order.push_back(add_top);
}

SumOrder order_of(const Subtrees& subtrees, int64_t total) {
  std::vector<TreeNode> held;
  for (const auto& of_rank : subtrees) held.insert(held.end(), of_rank.begin(), of_rank.end());
  SumOrder order;
  size_t next = 0;
  append_node(order, root_of_tree(total), held, next, total);
  ensures(next == held.size());
  return order;
}

class TreeComm final : public Comm {
public:
  TreeComm(std::unique_ptr<Comm> ranks, MPI_Comm world, const CommPlan& plan, Subtrees subtrees,
           int64_t leaves)
      : ranks_(std::move(ranks)),
        plan_(plan),
        subtrees_(std::move(subtrees)),
        uniform_(are_uniform(subtrees_)),
        order_(order_of(subtrees_, leaves)),
        messages_(world),
        gather_(make_direct(world, in_turn(messages_.size()))),
        scratch_(static_cast<size_t>(plan.window)) {}

  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  std::string name() const override {
    return uniform_ ? "tree: " + ranks_->name() : "tree, every subtree by itself";
  }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override { ranks_->all_reduce(out, in, queue); }
  void reduce_scatter(Tensor data, Queue& queue) override { ranks_->reduce_scatter(data, queue); }
  void all_gather(Tensor data, Queue& queue) override { ranks_->all_gather(data, queue); }
  void broadcast(Tensor data, int root, Queue& queue) override { ranks_->broadcast(data, root, queue); }
  void barrier(Queue& queue) override { ranks_->barrier(queue); }
  Range owned(int64_t count) const override { return ranks_->owned(count); }
  bool is_first_owner() const override { return ranks_->is_first_owner(); }
  int64_t owners() const override { return ranks_->owners(); }
  Allocator* allocator() override { return ranks_->allocator(); }

  void sum(Tensor out, const std::vector<Tensor>& subtrees, Receivers receivers, Queue& queue) override {
    validate_sum(out.dtype());
    expects(subtrees.size() == subtrees_[static_cast<size_t>(rank())].size());
    if (uniform_) return ranks_->sum(out, subtrees, receivers, queue);
    const bool everywhere = receivers == Receivers::all;
    queue.host([this, out, subtrees, everywhere, &queue] { sum_singly(out, subtrees, everywhere, queue); });
  }

private:
  void sum_singly(Tensor out, const std::vector<Tensor>& subtrees, bool everywhere, Queue& queue) {
    const Turn turn(pool_);
    const CommPlan::Blocks blocks = plan_.blocks_over(Inter::direct, size());
    const Division division(out.size(), 1, size(), blocks.bytes / size_of(out.dtype()));
    run_pipeline(
        division.blocks(), blocks.under_way,
        [&](int64_t block, int64_t slot) {
          return sum_block(out, subtrees, division, block, everywhere || division.is_tail(block),
                           {tags_.next(), scratch_[static_cast<size_t>(slot)], pool_});
        },
        pool_, queue);
  }

  Task sum_block(Tensor out, const std::vector<Tensor>& subtrees, const Division& division, int64_t block,
                 bool everywhere, Slot slot) {
    slot.scratch.restart();
    const Pieces pieces = division.pieces(out, 0, block);
    const Tensor& mine = pieces[static_cast<size_t>(rank())].front();
    std::vector<Pieces> own;
    for (const Tensor& subtree : subtrees) own.push_back(division.pieces(subtree, 0, block));
    std::vector<Summand> summands;
    Requests requests(slot.pool);
    for (int from = 0; from < size(); ++from) {
      for (size_t i = 0; i < subtrees_[static_cast<size_t>(from)].size(); ++i) {
        const bool is_own = from == rank();
        const Tensor data =
            is_own ? own[i][static_cast<size_t>(from)].front() : slot.scratch.take(mine.dtype(), mine.size());
        summands.push_back({data.raw(), data.dtype()});
        if (!is_own) messages_.receive(requests, data, from, slot.tag);
      }
    }
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size();
      for (const Pieces& subtree : own)
        messages_.send(requests, subtree[static_cast<size_t>(to)].front(), to, slot.tag);
    }
    co_await until([&] { return requests.are_done(); });
    sum_arrays(mine, summands, order_);
    if (everywhere) co_await gather_->gather(pieces, slot);
  }

  std::unique_ptr<Comm> ranks_;
  CommPlan plan_;
  Subtrees subtrees_;
  bool uniform_;
  SumOrder order_;
  Messages messages_;
  std::unique_ptr<Exchange> gather_;
  std::vector<Scratch> scratch_;
  RequestPool pool_;
  Tags tags_;
};

}  // namespace

bool has_nodes_as_subtrees(const NodeOfRank& layout) {
  const std::vector<int> sizes = ranks_per_node(layout);
  return std::ranges::is_sorted(layout) &&
         std::ranges::all_of(sizes, [&](int size) { return size == sizes.front(); }) &&
         std::has_single_bit(static_cast<unsigned>(sizes.front()));
}

std::unique_ptr<Comm> make_tree_comm(const World& world, const CommPlan& plan,
                                     const std::vector<Range>& leaves_of_rank) {
  validate(
      !plan.rounds(),
      "--reduction tree promises the same bits on every layout, bf16 on the wire depends on it: use --wire "
      "fp32");
  validate_plan(plan);
  expects(std::ssize(leaves_of_rank) == world.size());
  CommPlan of_ranks = plan;
  of_ranks.inter = Inter::direct;
  Subtrees subtrees = subtrees_of(leaves_of_rank);
  Grouping grouping = grouping_of(world);
  if (!are_uniform(subtrees) || !has_nodes_as_subtrees(grouping.layout)) grouping = flat_grouping(world);
  return std::make_unique<TreeComm>(make_hierarchical_comm(grouping, of_ranks, as_tree), world.world(), plan,
                                    std::move(subtrees), leaves_of_rank.back().end);
}

}  // namespace gpt
