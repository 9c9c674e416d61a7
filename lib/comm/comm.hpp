#pragma once

#include "base/integers.hpp"
#include "comm/comm_plan.hpp"
#include "comm/node_layout.hpp"
#include "comm/world.hpp"
#include "device/buffer.hpp"
#include "device/queue.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// Which ranks get a sum: all of them all of it, or each what it owns and the tail.
enum class Receivers { all, owners };

/// Elements of each owner's part of `count`: equal parts of whole blocks (Comm::alignment).
int64_t owned_part_size(int64_t count, int64_t owners);
/// The rest of `count`, behind all parts.
Range unowned_tail(int64_t count, int64_t owners);
/// The part of the rank at `place` where `lanes` ranks of every node own parts, as a sum inside nodes and
/// then between them leaves it: with Sharding::node a node has all of `count`. Empty for a rank beyond the
/// lanes.
Range owned_in_lane(const NodePlace& place, int lanes, Sharding sharding, int64_t count);

/// Collective sums and copies over the ranks of a group, in the order of a Queue. All ranks call the same
/// operations in the same order with the same counts. Sums of f32, bf16, f64, copies of any dtype; any count
/// from 0 on. A group of one rank is the ordinary path.
///
/// One operation at a time: whoever gives operations to several queues sees to it that the first queue's are
/// done before the next one's begin. Two at once end with an Error on the rank that tries it.
///
/// Inside a node all ranks give an operation the same part of the same allocation from allocator(), or all of
/// them memory of their own; anything else ends with an Error on the ranks of that node.
class Comm {
public:
  /// Elements that every part begins at a multiple of. Whole blocks of gradient-norm sums, so that each has
  /// one owner and the norm is the same whoever owns what.
  static constexpr int64_t alignment = 1024;

  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// For logs: "flat MPI". Whether memory is shared is known of what allocator() has given so far.
  virtual std::string name() const = 0;

  /// out = Σ over ranks of in; out may be in.
  virtual void all_reduce(Tensor out, Tensor in, Queue&) = 0;

  /// Sums over the ranks so that owned(data.size()) and tail(data.size()) hold the sum; the rest of `data` is
  /// undefined afterwards.
  virtual void reduce_scatter(Tensor data, Queue&) = 0;

  /// out = Σ over the ranks of their summands: one each, or where leaves of a batch are added along their
  /// tree (make_tree_comm) as many as the rank has subtrees, from left to right. out may be one of them. What
  /// `receivers` leave out of `out` is undefined afterwards.
  virtual void sum(Tensor out, const std::vector<Tensor>& summands, Receivers receivers, Queue&);

  /// Every rank gives owned(data.size()) and receives the other ranks' parts; the tail is not touched.
  virtual void all_gather(Tensor data, Queue&) = 0;

  /// Memory in which sums are formed fastest, for buffers that are reduced often; null: any memory will do.
  /// Allocation is collective over the ranks of a node: same sizes, same order. Other threads' operations on
  /// other buffers may be under way meanwhile.
  virtual Allocator* allocator() { return nullptr; }

  virtual void broadcast(Tensor data, int root, Queue&) = 0;
  virtual void barrier(Queue&) = 0;

  /// Which part of `count` elements this rank holds after reduce_scatter: equal parts, each multiples of
  /// `alignment`, in the order that the implementation leaves them. Empty on ranks that own nothing: surplus
  /// ranks of uneven nodes. Nobody else computes slices.
  virtual Range owned(int64_t count) const = 0;

  /// Whether no rank before this one owns the same part: where parts are divided inside nodes only, one rank
  /// of every node owns each. Sums over parts count those of first owners.
  virtual bool is_first_owner() const = 0;

  /// What does not divide into equal aligned parts: reduced everywhere and updated by all.
  Range tail(int64_t count) const { return unowned_tail(count, owners()); }

  /// Ranks that own a part.
  virtual int64_t owners() const = 0;

protected:
  int64_t part_size(int64_t count) const { return owned_part_size(count, owners()); }

  /// @throws Error unless there are sums of that type
  static void validate_sum(DType dtype);
};

/// Reduction::tree: over the ranks, as many leaves (comm/tree_comm.hpp has it over any leaves). Collective
/// over the world.
std::unique_ptr<Comm> make_comm(const World& world, const CommPlan& plan);

/// Flat: the library's collectives over one communicator. Holds a duplicate of `group`; collective over it.
std::unique_ptr<Comm> make_mpi_comm(MPI_Comm group, int64_t chunk = default_chunk);

/// Reduce-scatter inside the node, all-reduce between peers, all-gather inside the node (docs/reduction.md).
/// Uneven nodes: with k the smallest number of ranks on a node, the node's sum goes to k lanes; surplus ranks
/// only add and receive. Collective over the world.
std::unique_ptr<Comm> make_hierarchical_comm(const World& world, const CommPlan& plan = {});

}  // namespace gpt
