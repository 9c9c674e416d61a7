#pragma once

#include "base/integers.hpp"
#include "comm/world.hpp"
#include "device/buffer.hpp"
#include "device/queue.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// Which ranks get a sum: all of them all of it, or each what it owns and the tail.
enum class Receivers { all, owners };

/// Collective sums and copies over the ranks of a group, in the order of a Queue. All ranks call the same
/// operations in the same order with the same counts. dtypes f32, bf16, f64; any count from 0 on. A group of
/// one rank is the ordinary path.
class Comm {
public:
  /// Elements that every part begins at a multiple of. Whole blocks of gradient-norm sums, so that each has
  /// one owner and the norm is the same whoever owns what.
  static constexpr int64_t alignment = 1024;

  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  ///< for logs: "flat MPI"

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
  /// Allocation is collective over the ranks of a node: same sizes, same order.
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
  Range tail(int64_t count) const;

  /// Ranks that own a part.
  virtual int64_t owners() const = 0;

protected:
  /// Elements of one owner's part.
  int64_t part_size(int64_t count) const;
};

enum class Reduction { flat, hierarchical, tree };
enum class Inter { library, ring, halving, tree };
enum class Sharding { world, node };

/// Elements that travel in one call of the MPI library at most: it counts in int, and some transports count
/// bytes so too.
constexpr int64_t default_chunk = int64_t{1} << 26;

/// How sums are formed. The bits of a sum are a function of this, the ranks and their layout.
struct CommPlan {
  Reduction reduction = Reduction::hierarchical;
  Inter inter = Inter::ring;            ///< hierarchical: between nodes
  DType wire_node = DType::f32;         ///< what f32 sums travel as inside a node: f32 or bf16
  DType wire_peers = DType::f32;        ///< and between nodes
  Sharding sharding = Sharding::world;  ///< whether owned() divides over all ranks or inside the node only
  bool shared_windows = true;           ///< hierarchical: ranks of a node share memory where there is room
  int64_t block_bytes = 0;  ///< of a lane that goes through the hops at a time; 0: block_for chooses
  int64_t window = 16;      ///< blocks under way at a time
  int64_t chunk = default_chunk;

  /// Bytes of a block on so many nodes: messages of 32 KiB between them, a megabyte where there are none
  /// (docs/performance.md).
  int64_t block_for(int64_t nodes) const;
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
