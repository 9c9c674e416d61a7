#pragma once

#include "base/integers.hpp"
#include "base/mpi.hpp"
#include "comm/messages.hpp"
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

/// `range` cut into pieces of `chunk` elements, the last one smaller.
std::vector<Range> chunks_of(Range range, int64_t chunk);

/// The library's nonblocking sums and copies of host memory over one communicator, which it duplicates. MPI
/// counts in int, so that more than `chunk` elements travel in several calls. bf16 is added in fp32 and
/// rounded at every addition. All ranks start the same calls in the same order.
class MpiGroup {
public:
  /// Collective over `group`.
  MpiGroup(MPI_Comm group, int64_t chunk);
  ~MpiGroup();

  int rank() const { return rank_; }
  int size() const { return size_; }

  void all_reduce(Requests& requests, Tensor out, Tensor in) const;
  /// data = Σ data on `root`; undefined on the others.
  void reduce(Requests& requests, Tensor data, int root) const;
  void broadcast(Requests& requests, Tensor data, int root) const;
  void barrier(Requests& requests) const;

private:
  MPI_Op sum_of(DType dtype) const;

  CommHandle comm_;
  OpHandle add_bfloat16_;
  int64_t chunk_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace gpt
