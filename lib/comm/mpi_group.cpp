#include "comm/mpi_group.hpp"

#include "base/bfloat16.hpp"
#include "base/contracts.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <climits>
#include <exception>

namespace gpt {
namespace {

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::bf16:
      return MPI_UINT16_T;  // MPI has no such type: two bytes with an operation of our own
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
  }
  return MPI_DATATYPE_NULL;
}

// MPI fixes this signature.
void add_bfloat16(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const bfloat16*>(in);
  auto* b = static_cast<bfloat16*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = bfloat16(static_cast<float>(a[i]) + static_cast<float>(b[i]));
}

int to_int(int64_t count) {
  ensures(count >= 0 && count <= INT_MAX);
  return static_cast<int>(count);
}

}  // namespace

std::vector<Range> chunks_of(Range range, int64_t chunk) {
  std::vector<Range> result;
  for (int64_t begin = range.begin; begin < range.end; begin += chunk) {
    result.push_back({begin, std::min(begin + chunk, range.end)});
  }
  return result;
}

MpiGroup::MpiGroup(MPI_Comm group, int64_t chunk) : comm_(duplicate(group)), chunk_(chunk) {
  validate(chunk >= 1 && chunk <= INT_MAX, "chunks of {} elements: MPI counts 1 to {}", chunk, INT_MAX);
  check_mpi(MPI_Comm_rank(comm_.get(), &rank_));
  check_mpi(MPI_Comm_size(comm_.get(), &size_));
  MPI_Op op = MPI_OP_NULL;
  check_mpi(MPI_Op_create(add_bfloat16, /*commute=*/1, &op));
  add_bfloat16_.reset(op);
}

MpiGroup::~MpiGroup() {
  // Freeing is collective: while an exception passes, the other ranks may never come to it.
  if (std::uncaught_exceptions() > 0) {
    comm_.release();
    add_bfloat16_.release();
  }
}

MPI_Op MpiGroup::sum_of(DType dtype) const { return dtype == DType::bf16 ? add_bfloat16_.get() : MPI_SUM; }

void MpiGroup::all_reduce(Requests& requests, Tensor out, Tensor in) const {
  expects(out.size() == in.size() && out.dtype() == in.dtype());
  const bool in_place = out.raw() == in.raw();
  for (const Range& range : chunks_of({0, out.size()}, chunk_)) {
    check_mpi(MPI_Iallreduce(in_place ? MPI_IN_PLACE : in.flat(range).raw(), out.flat(range).raw(),
                             to_int(range.size()), type_of(out.dtype()), sum_of(out.dtype()), comm_.get(),
                             &requests.add()));
  }
}

void MpiGroup::reduce(Requests& requests, Tensor data, int root) const {
  for (const Range& range : chunks_of({0, data.size()}, chunk_)) {
    void* const piece = data.flat(range).raw();
    check_mpi(MPI_Ireduce(rank_ == root ? MPI_IN_PLACE : piece, piece, to_int(range.size()),
                          type_of(data.dtype()), sum_of(data.dtype()), root, comm_.get(), &requests.add()));
  }
}

void MpiGroup::broadcast(Requests& requests, Tensor data, int root) const {
  for (const Range& range : chunks_of({0, data.size()}, chunk_)) {
    check_mpi(MPI_Ibcast(data.flat(range).raw(), to_int(range.size()), type_of(data.dtype()), root,
                         comm_.get(), &requests.add()));
  }
}

void MpiGroup::barrier(Requests& requests) const { check_mpi(MPI_Ibarrier(comm_.get(), &requests.add())); }

}  // namespace gpt
