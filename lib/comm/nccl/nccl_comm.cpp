#include "comm/nccl/nccl_comm.hpp"

#include "base/contracts.hpp"
#include "comm/nccl/hop.hpp"
#include "comm/nccl/nccl_settings.hpp"
#include "comm/nccl_scratch.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

/// A hop for sums of f32, which may be rounded, and one for all else.
struct HopPair {
  std::unique_ptr<Hop> plain, rounded;

  Hop& of_sums(DType dtype) const { return rounded && dtype == DType::f32 ? *rounded : *plain; }
};

/// See HierarchicalComm for lanes. Sums of all ranks go to NCCL as they are where there is but one hop.
class NcclComm final : public Comm {
public:
  NcclComm(const NcclGroups& groups, const NodeOfRank& layout, const CommPlan& plan, Device& device)
      : plan_(plan),
        world_(groups.world),
        place_(place_of(world_.rank(), layout)),
        sizes_(ranks_per_node(layout)),
        lanes_(std::ranges::min(sizes_)),
        single_ranks_(std::ranges::max(sizes_) == 1),
        block_(lanes_ * nccl_lane_block(plan, place_.nodes)),
        pulse_(device, DType::f32, {1}),
        between_(nccl_keeps_launch_order() ? device.make_communication_queue() : nullptr),
        ready_(device.make_event()),
        summed_{device.make_event(), device.make_event()} {
    const int64_t piece = nccl_lane_block(plan, place_.nodes);
    node_.plain = make_plain_hop(*groups.node, lanes_);
    if (plan.wire_node == DType::bf16 && !single_ranks_)
      node_.rounded = make_rounded_hop(*groups.node, lanes_, device, piece);
    if (groups.lane == nullptr || place_.nodes == 1) return;
    has_lane_ = true;
    lane_.plain = make_plain_hop(*groups.lane, place_.nodes);
    if (plan.wire_peers == DType::bf16)
      lane_.rounded = make_rounded_hop(*groups.lane, place_.nodes, device, piece / place_.nodes);
  }

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }

  std::string name() const override {
    if (plan_.reduction == Reduction::flat) return "flat NCCL";
    std::vector<int> shown = sizes_;
    if (lanes_ == std::ranges::max(sizes_)) shown.resize(1);
    std::string text =
        fmt::format("hierarchical NCCL, {} rank{} a node", fmt::join(shown, ","), single_ranks_ ? "" : "s");
    if (plan_.wire_node == DType::bf16 && !single_ranks_) text += ", bf16 inside";
    if (plan_.wire_peers == DType::bf16 && place_.nodes > 1) text += ", bf16 between";
    if (!between_ && !has_one_hop()) text += ", one block at a time";
    return text;
  }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override {
    expects(out.size() == in.size() && out.dtype() == in.dtype());
    validate_sum(out.dtype());
    if (has_one_hop() && !rounds(in.dtype()))
      return world_.together([&] { world_.all_reduce(out, in, queue); });
    if (out.raw() != in.raw()) queue.copy(out, in);
    sum_in_blocks(out, queue);
  }

  void reduce_scatter(Tensor data, Queue& queue) override {
    validate_sum(data.dtype());
    const Tensor parts = parts_of(data), rest = data.flat(tail(data.size()));
    if (place_.nodes == 1 && !rounds(data.dtype()))
      return world_.together([&] {
        world_.reduce_scatter(parts, queue);
        world_.all_reduce(rest, rest, queue);
      });
    node_.of_sums(data.dtype()).reduce_scatter(parts, queue);
    if (has_lane_) {
      Hop& lane = lane_.of_sums(data.dtype());
      if (plan_.sharding == Sharding::node)
        lane.all_reduce(own_lane(parts), queue);
      else
        lane.reduce_scatter(own_lane(parts), queue);
    }
    world_.together([&] { world_.all_reduce(rest, rest, queue); });
  }

  void all_gather(Tensor data, Queue& queue) override {
    const Tensor parts = parts_of(data);
    if (has_lane_ && plan_.sharding == Sharding::world) lane_.plain->all_gather(own_lane(parts), queue);
    node_.plain->all_gather(parts, queue);
  }

  void broadcast(Tensor data, int root, Queue& queue) override {
    world_.together([&] { world_.broadcast(data, root, queue); });
  }

  void barrier(Queue& queue) override {
    world_.together([&] { world_.all_reduce(pulse_, pulse_, queue); });
  }

  bool is_first_owner() const override { return plan_.sharding == Sharding::world || place_.node == 0; }

  Range owned(int64_t count) const override { return owned_in_lane(place_, lanes_, plan_.sharding, count); }

protected:
  int64_t owners() const override { return int64_t{lanes_} * place_.nodes; }

private:
  bool has_one_hop() const { return place_.nodes == 1 || single_ranks_; }
  /// The same on all ranks, as has_one_hop.
  bool rounds(DType dtype) const {
    return dtype == DType::f32 && ((plan_.wire_node == DType::bf16 && !single_ranks_) ||
                                   (plan_.wire_peers == DType::bf16 && place_.nodes > 1));
  }

  Tensor parts_of(const Tensor& data) const { return data.flat({0, tail(data.size()).begin}); }
  Tensor own_lane(const Tensor& parts) const {
    return parts.flat(part_of(parts.size(), lanes_, place_.index));
  }

  /// Block by block, so that inside the node one is summed or spread while another is between nodes:
  ///
  ///     queue      scatter 0 | scatter 1 | gather 0 | scatter 2 | gather 1 | …
  ///     between_               lane 0    | lane 1               | lane 2   | …
  ///
  /// All ranks give all of this in one order: two communicators at work at a time wait for each other if some
  /// ranks start one first and some the other. Where NCCL does not keep that order, all of it is in the
  /// queue's stream.
  void sum_in_blocks(Tensor data, Queue& queue) {
    const Tensor parts = parts_of(data), rest = data.flat(tail(data.size()));
    const int64_t blocks = ceil_div(parts.size(), block_);
    Queue& between = blocks > 1 && between_ ? *between_ : queue;
    const auto block = [&](int64_t i) {
      return parts.flat({i * block_, std::min(parts.size(), (i + 1) * block_)});
    };
    Hop& node = node_.of_sums(data.dtype());
    for (int64_t i = 0; i <= blocks; ++i) {
      if (i < blocks) {
        node.reduce_scatter(block(i), queue);
        if (has_lane_) {
          follow(between, queue, *ready_);
          lane_.of_sums(data.dtype()).all_reduce(own_lane(block(i)), between);
          between.record(summed(i));
        }
      }
      if (i > 0) {
        if (has_lane_) queue.wait(summed(i - 1));
        node.all_gather(block(i - 1), queue);
      }
    }
    world_.together([&] { world_.all_reduce(rest, rest, queue); });
  }

  Event& summed(int64_t block) { return *summed_[static_cast<size_t>(block % 2)]; }

  static void follow(Queue& later, Queue& first, Event& mark) {
    if (&later == &first) return;
    first.record(mark);
    later.wait(mark);
  }

  CommPlan plan_;
  const NcclGroup& world_;
  NodePlace place_;
  std::vector<int> sizes_;  // of nodes
  int lanes_;
  bool single_ranks_;
  int64_t block_;  // elements
  HopPair node_, lane_;
  bool has_lane_ = false;
  TensorBuffer pulse_;              // f32 (1), for barriers
  std::unique_ptr<Queue> between_;  // its end comes before that of what it works on; null: one at a time
  std::unique_ptr<Event> ready_;
  std::array<std::unique_ptr<Event>, 2> summed_;  // the last two blocks, between nodes
};

}  // namespace

std::unique_ptr<Comm> make_nccl_comm(const NcclGroups& groups, const NodeOfRank& layout, const CommPlan& plan,
                                     Device& device) {
  return std::make_unique<NcclComm>(groups, layout, plan, device);
}

}  // namespace gpt
