#include "comm/hierarchical_comm.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "comm/division.hpp"
#include "comm/exchange.hpp"
#include "comm/mpi_group.hpp"
#include "comm/node_memory.hpp"
#include "comm/pipeline.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace gpt {
namespace {

/// What is done to a block, in this order.
struct Steps {
  bool reduce_in_node = false;
  bool reduce_between = false;
  bool gather_between = false;
  bool gather_in_node = false;

  bool sums() const { return reduce_in_node; }
};
constexpr Steps sum_everywhere{true, true, true, true};
constexpr Steps sum_at_owners{.reduce_in_node = true, .reduce_between = true};
constexpr Steps sum_in_lanes{.reduce_in_node = true, .reduce_between = true, .gather_between = true};
constexpr Steps copy_from_owners{.gather_between = true, .gather_in_node = true};
constexpr Steps copy_from_lanes{.gather_in_node = true};
constexpr Steps nothing{};

/// A lane is the ranks with one index on their nodes; there are as many lanes as the smallest node has ranks,
/// so that every lane reaches every node. A node's sum is cut over its lanes; ranks beyond them only add and
/// receive.
class HierarchicalComm final : public Comm {
public:
  HierarchicalComm(const Grouping& grouping, const CommPlan& plan, OrderOf order_of)
      : plan_(plan),
        rank_(grouping.rank),
        layout_(grouping.layout),
        place_(place_of(rank_, layout_)),
        lanes_(std::ranges::min(ranks_per_node(layout_))),
        single_ranks_(std::ranges::max(ranks_per_node(layout_)) == 1),
        world_(grouping.world, plan.chunk),
        node_order_(order_of(place_.size)),
        node_sum_(make_direct(grouping.node, node_order_, plan.wire_node)),
        node_copy_(make_direct(grouping.node, node_order_)) {
    if (plan.shared_memory && place_.size > 1) {
      memory_.emplace(grouping.node);
      progress_.emplace(*memory_);
    }
    if (in_lane() && place_.nodes > 1) {
      named_ = way_of(plan.inter).make(grouping.peers, plan.chunk, order_of(place_.nodes));
      direct_ = make_direct(grouping.peers, order_of(place_.nodes), plan.wire_peers);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(layout_.size()); }

  std::string name() const override {
    std::vector<int> sizes = ranks_per_node(layout_);
    if (std::ranges::min(sizes) == std::ranges::max(sizes)) sizes.resize(1);
    std::string text =
        fmt::format("hierarchical, {} rank{} a node", fmt::join(sizes, ","), single_ranks_ ? "" : "s");
    if (!single_ranks_) {
      text += sees_node() && memory_->shares_all() ? ", shared memory" : ", messages";
      text += " inside";
      if (plan_.wire_node == DType::bf16) text += " in bf16";
    }
    if (place_.nodes > 1) {
      text += fmt::format(", {} between", way_of(plan_.inter_of_sums(DType::f32)).title);
      if (plan_.wire_peers == DType::bf16) text += " in bf16";
    }
    return text;
  }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override {
    expects(out.size() == in.size() && out.dtype() == in.dtype());
    validate_sum(out.dtype());
    if (out.raw() != in.raw()) queue.copy(out, in);
    give(out, sum_everywhere, sum_everywhere, queue);
  }

  void reduce_scatter(Tensor data, Queue& queue) override {
    validate_sum(data.dtype());
    give(data, plan_.sharding == Sharding::node ? sum_in_lanes : sum_at_owners, sum_everywhere, queue);
  }

  void all_gather(Tensor data, Queue& queue) override {
    give(data, plan_.sharding == Sharding::node ? copy_from_lanes : copy_from_owners, nothing, queue);
  }

  void broadcast(Tensor data, int root, Queue& queue) override {
    give_requests([this, data, root](Requests& requests) { world_.broadcast(requests, data, root); }, pool_,
                  queue);
  }

  void barrier(Queue& queue) override {
    give_requests([this](Requests& requests) { world_.barrier(requests); }, pool_, queue);
  }

  Allocator* allocator() override { return sees_node() ? &*memory_ : nullptr; }

  bool is_first_owner() const override { return plan_.sharding == Sharding::world || place_.node == 0; }

  Range owned(int64_t count) const override { return owned_in_lane(place_, lanes_, plan_.sharding, count); }

protected:
  int64_t owners() const override { return int64_t{lanes_} * place_.nodes; }

private:
  bool in_lane() const { return place_.index < lanes_; }
  DType wire_in_node(DType dtype) const { return dtype == DType::f32 ? plan_.wire_node : dtype; }
  bool sees_node() const { return progress_ && progress_->works(); }

  void give(Tensor data, Steps steps, Steps tail_steps, Queue& queue) {
    queue.host([this, data, steps, tail_steps, &queue] { run(data, steps, tail_steps, queue); });
  }

  void run(Tensor data, Steps steps, Steps tail_steps, Queue& queue) {
    if (size() == 1 || data.size() == 0) return;
    const Turn turn(pool_);
    const Inter between = steps.sums() ? plan_.inter_of_sums(data.dtype()) : plan_.inter;
    const CommPlan::Blocks blocks = plan_.blocks_over(between, place_.nodes);
    const Operation operation{
        .data = data,
        .division = {data.size(), lanes_, place_.nodes, blocks.bytes / size_of(data.dtype())},
        .shared = memory_ ? memory_->find(data) : std::nullopt,
        .between = steps.sums() && between == Inter::direct ? direct_.get() : named_.get()};
    const int64_t number = begin_in_node(operation, queue);
    run_pipeline(
        operation.division.blocks(), blocks.under_way,
        [&](int64_t block, int64_t slot) {
          const Steps& of_block = operation.division.is_tail(block) ? tail_steps : steps;
          return work(operation, of_block, block, {tags_.next(), scratch_[static_cast<size_t>(slot)], pool_});
        },
        pool_, queue);
    end_in_node(number, queue);
  }

  struct Operation {
    Tensor data;
    Division division;
    std::optional<SharedArray> shared;  // the ranks of the node see each other's data
    Exchange* between;                  // null: this rank exchanges nothing with other nodes
  };

  // Also where data is not shared: whether all ranks of the node think so is to be seen before any waits.
  int64_t begin_in_node(const Operation& operation, Queue& queue) {
    if (!sees_node()) return 0;
    const ArrayPlace own{.bytes = operation.data.bytes()};
    const int64_t number = progress_->begin(operation.shared ? operation.shared->place() : own);
    poll([&] { return progress_->all_began(number); }, pool_, queue);
    progress_->check_places();
    return number;
  }

  void end_in_node(int64_t number, Queue& queue) {
    if (!sees_node()) return;
    progress_->end(number);
    poll([&] { return progress_->all_ended(number); }, pool_, queue);
  }

  Task work(const Operation& operation, Steps steps, int64_t block, Slot slot) {
    const Pieces mine = in_lane() ? operation.division.pieces(operation.data, place_.index, block) : Pieces{};
    Pieces of_node;
    if (place_.size > 1 && !operation.shared) of_node = pieces_of_node(operation, block);
    if (steps.reduce_in_node && place_.size > 1) {
      if (operation.shared)
        sum_node(*operation.shared, mine);
      else
        co_await node_sum_->reduce(of_node, slot);
    }
    Exchange* const between = operation.between;
    if (between != nullptr && steps.reduce_between && steps.gather_between)
      co_await between->all_reduce(mine, slot);
    else if (between != nullptr && steps.reduce_between)
      co_await between->reduce(mine, slot);
    else if (between != nullptr && steps.gather_between)
      co_await between->gather(mine, slot);
    const DType dtype = operation.data.dtype();
    const bool rounded = steps.sums() && wire_in_node(dtype) != dtype && !single_ranks_;
    if (rounded) round_to_wire(mine);
    if (steps.gather_in_node && place_.size > 1) {
      if (operation.shared)
        spread_in_node(*operation.shared, mine);
      else
        co_await (rounded ? node_sum_ : node_copy_)->gather(of_node, slot);
    }
  }

  // Whoever owns lane j of the node owns all that the lane's nodes will own.
  Pieces pieces_of_node(const Operation& operation, int64_t block) const {
    Pieces result(static_cast<size_t>(place_.size));
    for (int lane = 0; lane < lanes_; ++lane) {
      for (const auto& piece : operation.division.pieces(operation.data, lane, block))
        result[static_cast<size_t>(lane)].push_back(piece.front());
    }
    return result;
  }

  void sum_node(const SharedArray& shared, const Pieces& mine) const {
    std::vector<Summand> summands(static_cast<size_t>(place_.size));
    for (const auto& piece : mine) {
      const Tensor& range = piece.front();
      const DType wire = wire_in_node(range.dtype());
      for (int member = 0; member < place_.size; ++member) {
        const bool own = member == place_.index;
        summands[static_cast<size_t>(member)] = {.data = shared.at(member, range).raw(),
                                                 .dtype = range.dtype(),
                                                 .travels_as = own ? range.dtype() : wire};
      }
      sum_arrays(range, summands, node_order_, wire);
    }
  }

  void spread_in_node(const SharedArray& shared, const Pieces& mine) const {
    for (const auto& piece : mine) {
      const Tensor& range = piece.front();
      for (int step = 1; step < place_.size; ++step) {
        const Tensor theirs = shared.at((place_.index + step) % place_.size, range);
        std::memcpy(theirs.raw(), range.raw(), static_cast<size_t>(range.bytes()));
      }
    }
  }

  static void round_to_wire(const Pieces& mine) {
    for (const auto& piece : mine) {
      const Summand only{.data = piece.front().raw(), .dtype = piece.front().dtype()};
      sum_arrays(piece.front(), {&only, 1}, in_turn(1), DType::bf16);
    }
  }

  CommPlan plan_;
  int rank_;
  NodeOfRank layout_;
  NodePlace place_;
  int lanes_;
  bool single_ranks_;
  MpiGroup world_;
  SumOrder node_order_;
  std::unique_ptr<Exchange> node_sum_, node_copy_;
  std::unique_ptr<Exchange> named_, direct_;  // between nodes: as the plan names it; rounds to the wire
  std::optional<NodeMemory> memory_;
  std::optional<NodeProgress> progress_;
  std::vector<Scratch> scratch_ = std::vector<Scratch>(static_cast<size_t>(plan_.window));
  RequestPool pool_;
  Tags tags_;
};

}  // namespace

std::unique_ptr<Comm> make_hierarchical_comm(const Grouping& grouping, const CommPlan& plan,
                                             OrderOf order_of) {
  validate_plan(plan);
  validate_fits(plan.inter, std::ssize(ranks_per_node(grouping.layout)));
  return std::make_unique<HierarchicalComm>(grouping, plan, order_of);
}

std::unique_ptr<Comm> make_hierarchical_comm(const World& world, const CommPlan& plan) {
  return make_hierarchical_comm(grouping_of(world), plan, in_turn);
}

}  // namespace gpt
