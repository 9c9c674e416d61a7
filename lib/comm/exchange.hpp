#pragma once

#include "comm/messages.hpp"
#include "comm/task.hpp"
#include "device/host_sum.hpp"
#include "device/tensor.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace gpt {

/// What each member of a group owns of a block, by member: ranges of one tensor, the same on all members.
using Pieces = std::vector<std::vector<Tensor>>;

/// Memory for messages of one block under way; grows to what is needed and stays.
class Scratch {
public:
  /// Everything taken so far may be used anew.
  void restart() { used_ = 0; }

  /// `elements` of a type, aligned to a cache line. What was taken before stays where it is.
  Tensor take(DType dtype, int64_t elements);

private:
  struct Chunk {
    std::unique_ptr<std::byte[]> data;
    int64_t bytes = 0;
  };
  std::vector<Chunk> chunks_;
  size_t used_ = 0;
};

/// Tags for blocks in the order in which they begin, the same on all ranks: so many that blocks under way on
/// any two ranks never share one, and within what MPI promises.
class Tags {
public:
  int next() { return last_ = (last_ + 1) % 16384; }

private:
  int last_ = 0;
};

/// A block under way: what keeps its messages apart from those of others.
struct Slot {
  int tag = 0;
  Scratch& scratch;
  RequestPool& pool;
};

/// How the members of one group sum blocks. A sum takes two steps: `reduce` leaves the sum of pieces[i] at
/// member i, `gather` copies each member's own pieces to all others. Both begin on all members in the same
/// order under the same tags.
class Exchange {
public:
  virtual ~Exchange() = default;

  virtual Task reduce(const Pieces& pieces, Slot slot) = 0;
  virtual Task gather(const Pieces& pieces, Slot slot) = 0;
  /// Both.
  virtual Task all_reduce(const Pieces& pieces, Slot slot);
};

/// One step of a sum: sends `outgoing`, and adds what comes to `mine`, range by range, as it is (no
/// conversion).
Task send_and_add(const Messages& messages, const std::vector<Tensor>& outgoing, int to,
                  const std::vector<Tensor>& mine, int from, Slot slot);

/// One step of a copy: sends `outgoing` and receives `incoming`.
Task send_and_receive(const Messages& messages, const std::vector<Tensor>& outgoing, int to,
                      const std::vector<Tensor>& incoming, int from, Slot slot);

/// Piece i passes all members and grows on its way: n−1 steps to neighbours, the fewest bytes, one message
/// each way at a time (Patarasuk and Yuan 2009).
std::unique_ptr<Exchange> make_ring(MPI_Comm group);

/// Halves of what is left with ever nearer partners, and back by doubling: 2·log₂ n steps, the fewest bytes
/// (Thakur et al. 2005). The group's size is a power of two.
std::unique_ptr<Exchange> make_halving(MPI_Comm group);

/// Every piece straight to its owner, who adds in `order`, rounds if `wire` is bf16, and sends the sum
/// straight to all: two steps, the fewest bytes. f32 data travels as `wire`.
std::unique_ptr<Exchange> make_direct(MPI_Comm group, SumOrder order, DType wire = DType::f32);

/// The MPI library's nonblocking collectives, each of up to `chunk` elements. Since those of one communicator
/// must start in the same order on all members, one block at a time.
std::unique_ptr<Exchange> make_library(MPI_Comm group, int64_t chunk);

}  // namespace gpt
