#include "comm/hierarchical_comm.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "comm/division.hpp"
#include "comm/exchange.hpp"
#include "comm/mpi_group.hpp"
#include "comm/node_memory.hpp"
#include "comm/pipeline.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace gpt {
namespace {

std::unique_ptr<Exchange> make_inter(Inter inter, MPI_Comm peers) {
  switch (inter) {
    case Inter::library:
      return make_library(peers);
    case Inter::halving:
      return make_halving(peers);
    case Inter::tree: {
      int size = 0;
      check_mpi(MPI_Comm_size(peers, &size));
      return make_direct(peers, as_tree(size));
    }
    case Inter::ring:
      break;
  }
  return make_ring(peers);
}

const char* name_of(Inter inter) {
  switch (inter) {
    case Inter::library:
      return "MPI";
    case Inter::halving:
      return "halving";
    case Inter::tree:
      return "a tree";
    case Inter::ring:
      break;
  }
  return "a ring";
}

/// What is done to every block, in this order.
struct Steps {
  bool reduce_in_node = false;
  bool reduce_between = false;
  bool gather_between = false;
  bool gather_in_node = false;

  bool sums() const { return reduce_in_node; }
};
constexpr Steps all_steps{true, true, true, true};

/// A lane is the ranks with one index on their nodes; there are as many lanes as the smallest node has ranks,
/// so that every lane reaches every node. A node's sum is cut over its lanes; ranks beyond them only add and
/// receive.
class HierarchicalComm final : public Comm {
public:
  HierarchicalComm(const Grouping& grouping, const CommPlan& plan)
      : plan_(plan),
        rank_(grouping.rank),
        layout_(grouping.layout),
        place_(place_of(rank_, layout_)),
        lanes_(std::ranges::min(ranks_per_node(layout_))),
        single_ranks_(std::ranges::max(ranks_per_node(layout_)) == 1),
        world_(grouping.world, plan.chunk),
        node_order_(plan.inter == Inter::tree ? as_tree(place_.size) : in_turn(place_.size)),
        node_sum_(make_direct(grouping.node, node_order_, plan.wire_node)),
        node_copy_(make_direct(grouping.node, node_order_)) {
    if (plan.shared_windows && place_.size > 1) {
      memory_.emplace(grouping.node);
      progress_.emplace(*memory_);
    }
    if (in_lane() && place_.nodes > 1) {
      between_ = make_inter(plan.inter, grouping.peers);
      between_rounded_ = make_direct(grouping.peers, in_turn(place_.nodes), plan.wire_peers);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(layout_.size()); }

  std::string name() const override {
    std::string text = fmt::format("hierarchical, {} ranks a node", fmt::join(ranks_per_node(layout_), ","));
    if (!single_ranks_) {
      text += progress_ && progress_->works() ? ", shared memory" : ", messages";
      text += " inside";
      if (plan_.wire_node == DType::bf16) text += " in bf16";
    }
    if (place_.nodes > 1) {
      text += fmt::format(", {} between", plan_.wire_peers == DType::bf16 ? "direct" : name_of(plan_.inter));
      if (plan_.wire_peers == DType::bf16) text += " in bf16";
    }
    return text;
  }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override {
    expects(out.size() == in.size() && out.dtype() == in.dtype());
    if (out.raw() != in.raw()) queue.copy(out, in);
    give(out, all_steps, all_steps, queue);
  }

  void reduce_scatter(Tensor data, Queue& queue) override {
    const bool whole_lane = plan_.sharding == Sharding::node;
    give(data, {.reduce_in_node = true, .reduce_between = true, .gather_between = whole_lane}, all_steps,
         queue);
  }

  void all_gather(Tensor data, Queue& queue) override {
    const bool between = plan_.sharding == Sharding::world;
    give(data, {.gather_between = between, .gather_in_node = true}, {}, queue);
  }

  void broadcast(Tensor data, int root, Queue& queue) override {
    give_requests([this, data, root](Requests& requests) { world_.broadcast(requests, data, root); }, pool_,
                  queue);
  }

  void barrier(Queue& queue) override {
    give_requests([this](Requests& requests) { world_.barrier(requests); }, pool_, queue);
  }

  Allocator* allocator() override { return progress_ && progress_->works() ? &*memory_ : nullptr; }

  bool is_first_owner() const override { return plan_.sharding == Sharding::world || place_.node == 0; }

  Range owned(int64_t count) const override {
    if (!in_lane()) return {0, 0};
    const int64_t part = part_size(count);
    const int64_t lane = place_.index * place_.nodes * part;
    if (plan_.sharding == Sharding::node) return {lane, lane + place_.nodes * part};
    return {lane + place_.node * part, lane + (place_.node + 1) * part};
  }

protected:
  int64_t owners() const override { return int64_t{lanes_} * place_.nodes; }

private:
  bool in_lane() const { return place_.index < lanes_; }

  void give(Tensor data, Steps steps, Steps tail_steps, Queue& queue) {
    queue.host([this, data, steps, tail_steps, &queue] { run(data, steps, tail_steps, queue); });
  }

  void run(Tensor data, Steps steps, Steps tail_steps, Queue& queue) {
    if (size() == 1 || data.size() == 0) return;
    Operation operation{
        .data = data,
        .division = {data.size(), lanes_, place_.nodes, block_bytes() / size_of(data.dtype())},
        .shared = memory_ && memory_->holds(data),
        .number = 0};
    if (operation.shared) operation.number = progress_->begin();
    run_pipeline(
        operation.division.blocks(), window(),
        [&](int64_t block, int64_t slot) {
          const Steps& of_block = operation.division.is_tail(block) ? tail_steps : steps;
          return work(operation, of_block, block, {next_tag(), scratch_[static_cast<size_t>(slot)], pool_});
        },
        pool_, queue);
    if (!operation.shared) return;
    progress_->end(operation.number);
    poll([&] { return progress_->all_ended(operation.number); }, pool_, queue);
  }

  struct Operation {
    Tensor data;
    Division division;
    bool shared;     // the ranks of the node see each other's data
    int64_t number;  // for progress_
  };

  Task work(const Operation& operation, Steps steps, int64_t block, Slot slot) {
    const Pieces mine = in_lane() ? operation.division.pieces(operation.data, place_.index, block) : Pieces{};
    Pieces of_node;
    if (place_.size > 1 && operation.shared) {
      co_await until([&] { return progress_->all_began(operation.number); });
    } else if (place_.size > 1) {
      of_node = pieces_of_node(operation, block);
    }
    if (steps.reduce_in_node && place_.size > 1) {
      if (operation.shared)
        sum_node(mine);
      else
        co_await node_sum_->reduce(of_node, slot);
    }
    Exchange* const between = exchange_between(operation.data.dtype(), steps.sums());
    if (between != nullptr && steps.reduce_between && steps.gather_between)
      co_await between->all_reduce(mine, slot);
    else if (between != nullptr && steps.reduce_between)
      co_await between->reduce(mine, slot);
    else if (between != nullptr && steps.gather_between)
      co_await between->gather(mine, slot);
    const bool rounded = steps.sums() && plan_.wire_node == DType::bf16 &&
                         operation.data.dtype() == DType::f32 && !single_ranks_;
    if (rounded) round_to_wire(mine);
    if (steps.gather_in_node && place_.size > 1) {
      if (operation.shared)
        spread_in_node(mine);
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

  void sum_node(const Pieces& mine) const {
    std::vector<Summand> summands(static_cast<size_t>(place_.size));
    for (const auto& piece : mine) {
      const Tensor& range = piece.front();
      const bool rounded = range.dtype() == DType::f32 && plan_.wire_node == DType::bf16;
      for (int member = 0; member < place_.size; ++member) {
        summands[static_cast<size_t>(member)] = {memory_->at(member, range).raw(), range.dtype(),
                                                 rounded && member != place_.index};
      }
      sum_arrays(range, summands, node_order_, rounded);
    }
  }

  void spread_in_node(const Pieces& mine) const {
    for (const auto& piece : mine) {
      const Tensor& range = piece.front();
      for (int step = 1; step < place_.size; ++step) {
        const Tensor theirs = memory_->at((place_.index + step) % place_.size, range);
        std::memcpy(theirs.raw(), range.raw(), static_cast<size_t>(range.bytes()));
      }
    }
  }

  static void round_to_wire(const Pieces& mine) {
    for (const auto& piece : mine) {
      const Summand only{piece.front().raw(), piece.front().dtype()};
      sum_arrays(piece.front(), {&only, 1}, in_turn(1), true);
    }
  }

  // bf16 sums are rounded once at their owner, so they go to it directly.
  Exchange* exchange_between(DType dtype, bool sums) const {
    const bool rounded = dtype == DType::bf16 || (dtype == DType::f32 && plan_.wire_peers == DType::bf16);
    return sums && rounded ? between_rounded_.get() : between_.get();
  }

  // The same on all ranks: also on those that carry no lane.
  bool by_library() const { return place_.nodes > 1 && plan_.inter == Inter::library; }
  int64_t window() const { return by_library() ? 1 : plan_.window; }
  int64_t block_bytes() const { return by_library() ? plan_.chunk : plan_.block_for(place_.nodes); }

  // Wide enough that blocks under way on any two ranks never share one; within what MPI promises.
  int next_tag() { return tag_ = (tag_ + 1) % 16384; }

  CommPlan plan_;
  int rank_;
  NodeOfRank layout_;
  NodePlace place_;
  int lanes_;
  bool single_ranks_;
  MpiGroup world_;
  SumOrder node_order_;
  std::unique_ptr<Exchange> node_sum_, node_copy_;
  std::unique_ptr<Exchange> between_, between_rounded_;
  std::optional<NodeMemory> memory_;
  std::optional<NodeProgress> progress_;
  std::vector<Scratch> scratch_ = std::vector<Scratch>(static_cast<size_t>(plan_.window));
  RequestPool pool_;
  int tag_ = 0;
};

}  // namespace

Grouping grouping_of(const World& world) {
  const int node = world.node_index();
  NodeOfRank layout(static_cast<size_t>(world.size()));
  check_mpi(MPI_Allgather(&node, 1, MPI_INT, layout.data(), 1, MPI_INT, world.world()));
  return {.layout = std::move(layout),
          .rank = world.rank(),
          .world = world.world(),
          .node = world.node(),
          .peers = world.peers()};
}

Grouping flat_grouping(const World& world) {
  NodeOfRank layout(static_cast<size_t>(world.size()));
  std::iota(layout.begin(), layout.end(), 0);
  return {.layout = std::move(layout),
          .rank = world.rank(),
          .world = world.world(),
          .node = MPI_COMM_SELF,
          .peers = world.world()};
}

std::unique_ptr<Comm> make_hierarchical_comm(const Grouping& grouping, const CommPlan& plan) {
  const auto nodes = static_cast<unsigned>(ranks_per_node(grouping.layout).size());
  validate(plan.inter != Inter::halving || std::has_single_bit(nodes),
           "--inter halving needs a power of two of nodes, here are {}: use --inter ring", nodes);
  return std::make_unique<HierarchicalComm>(grouping, plan);
}

std::unique_ptr<Comm> make_hierarchical_comm(const World& world, const CommPlan& plan) {
  return make_hierarchical_comm(grouping_of(world), plan);
}

}  // namespace gpt
