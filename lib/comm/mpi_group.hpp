#pragma once

#include "base/integers.hpp"
#include "base/mpi.hpp"
#include "device/tensor.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

struct OpTraits {
  using type = MPI_Op;
  static type null() { return MPI_OP_NULL; }
  static void release(type op) { MPI_Op_free(&op); }
};
using OpHandle = Handle<OpTraits>;

/// `count` elements cut for `ranks` ranks into consecutive ranges that begin at multiples of `unit`: one for
/// each of the first `lanes`, equal where `count` is a multiple of lanes·unit; the other ranks get empty
/// ones.
std::vector<Range> cut_aligned(int64_t count, int64_t lanes, int64_t ranks, int64_t unit);

/// `range` cut into pieces of `chunk` elements, the last one smaller.
std::vector<Range> chunks_of(Range range, int64_t chunk);

/// Blocking sums and copies of host memory over one communicator, which it duplicates: what the Comm
/// implementations are made of. MPI counts in int, so that more than `chunk` elements travel in several
/// calls. bf16 is added in fp32 and rounded at every addition.
class MpiGroup {
public:
  /// Collective over `group`.
  MpiGroup(MPI_Comm group, int64_t chunk);
  ~MpiGroup();

  int rank() const { return rank_; }
  int size() const { return size_; }

  void all_reduce(Tensor out, Tensor in) const;

  /// Sums `in` so that out[parts[rank]] holds this rank's part; the rest of `out` is undefined. `parts` are
  /// consecutive from 0 on; out may be in.
  void reduce_scatter(Tensor out, Tensor in, const std::vector<Range>& parts) const;

  /// Every rank gives data[parts[rank]] and receives the others'.
  void all_gather(Tensor data, const std::vector<Range>& parts) const;

  void broadcast(Tensor data, int root) const;
  void barrier() const;

private:
  MPI_Op sum_of(DType dtype) const;

  CommHandle comm_;
  OpHandle add_bfloat16_;
  int64_t chunk_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace gpt
