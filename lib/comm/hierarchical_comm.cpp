#include "base/contracts.hpp"
#include "comm/comm.hpp"
#include "comm/mpi_group.hpp"
#include "comm/node_layout.hpp"

#include <algorithm>
#include <optional>

namespace gpt {
namespace {

NodeOfRank gather_layout(const World& world) {
  const int node = world.node_index();
  NodeOfRank layout(static_cast<size_t>(world.size()));
  check_mpi(MPI_Allgather(&node, 1, MPI_INT, layout.data(), 1, MPI_INT, world.world()));
  return layout;
}

/// A lane is the ranks with one index on their nodes; there are as many lanes as the smallest node has ranks,
/// so that every lane reaches every node. A node's sum is cut over its lanes; ranks beyond them only add and
/// receive.
class HierarchicalComm final : public Comm {
public:
  HierarchicalComm(const World& world, int64_t chunk)
      : rank_(world.rank()),
        layout_(gather_layout(world)),
        place_(place_of(rank_, layout_)),
        lanes_(std::ranges::min(ranks_per_node(layout_))),
        node_(world.node(), chunk) {
    if (in_lane()) peers_.emplace(world.peers(), chunk);
    ensures(!in_lane() || peers_->size() == place_.nodes);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(layout_.size()); }
  std::string name() const override {
    return fmt::format("hierarchical MPI, {} ranks a node", fmt::join(ranks_per_node(layout_), ","));
  }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override {
    queue.host([this, out, in] { all_reduce_now(out, in); });
  }

  void reduce_scatter(Tensor data, Queue& queue) override {
    queue.host([this, data] {
      const std::vector<Range> lanes = lanes_of_main(data.size());
      node_.reduce_scatter(data, data, lanes);
      if (in_lane()) {
        const Tensor lane = data.flat(lanes[index()]);
        peers_->reduce_scatter(lane, lane, peer_parts(lane.size()));
      }
      const Tensor rest = data.flat(tail(data.size()));
      all_reduce_now(rest, rest);
    });
  }

  void all_gather(Tensor data, Queue& queue) override {
    queue.host([this, data] {
      const std::vector<Range> lanes = lanes_of_main(data.size());
      if (in_lane()) {
        const Tensor lane = data.flat(lanes[index()]);
        peers_->all_gather(lane, peer_parts(lane.size()));
      }
      node_.all_gather(data, lanes);
    });
  }

  void broadcast(Tensor data, int root, Queue& queue) override {
    queue.host([this, data, root] {
      const NodePlace from = place_of(root, layout_);
      if (place_.node == from.node) node_.broadcast(data, from.index);
      if (place_.index == 0) peers_->broadcast(data, from.node);
      if (place_.node != from.node) node_.broadcast(data, 0);
    });
  }

  void barrier(Queue& queue) override {
    queue.host([this] {
      node_.barrier();
      if (place_.index == 0) peers_->barrier();
      node_.barrier();
    });
  }

  Range owned(int64_t count) const override {
    if (!in_lane()) return {0, 0};
    const Range lane = lanes_of_main(count)[index()];
    const Range part = peer_parts(lane.size())[static_cast<size_t>(place_.node)];
    return {lane.begin + part.begin, lane.begin + part.end};
  }

protected:
  int64_t owners() const override { return int64_t{lanes_} * place_.nodes; }

private:
  bool in_lane() const { return place_.index < lanes_; }
  size_t index() const { return static_cast<size_t>(place_.index); }

  void all_reduce_now(Tensor out, Tensor in) const {
    const std::vector<Range> lanes = cut_aligned(out.size(), lanes_, place_.size, alignment);
    node_.reduce_scatter(out, in, lanes);
    if (in_lane()) {
      const Tensor lane = out.flat(lanes[index()]);
      peers_->all_reduce(lane, lane);
    }
    node_.all_gather(out, lanes);
  }

  // What each rank of the node has of everything but the tail.
  std::vector<Range> lanes_of_main(int64_t count) const {
    return cut_aligned(owners() * part_size(count), lanes_, place_.size, alignment);
  }

  std::vector<Range> peer_parts(int64_t lane_size) const {
    return cut_aligned(lane_size, place_.nodes, place_.nodes, alignment);
  }

  int rank_;
  NodeOfRank layout_;
  NodePlace place_;
  int lanes_;
  MpiGroup node_;
  std::optional<MpiGroup> peers_;
};

}  // namespace

std::unique_ptr<Comm> make_hierarchical_comm(const World& world, int64_t chunk) {
  return std::make_unique<HierarchicalComm>(world, chunk);
}

}  // namespace gpt
