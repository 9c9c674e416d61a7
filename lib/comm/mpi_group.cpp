#include "comm/mpi_group.hpp"

#include "base/bfloat16.hpp"
#include "base/contracts.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
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

int64_t total_of(const std::vector<Range>& parts) { return parts.back().end; }

}  // namespace

std::vector<Range> cut_aligned(int64_t count, int64_t lanes, int64_t ranks, int64_t unit) {
  const auto cut = [&](int64_t i) { return std::min(count, round_up(part_of(count, lanes, i).begin, unit)); };
  std::vector<Range> parts;
  for (int64_t i = 0; i < ranks; ++i) parts.push_back({cut(std::min(i, lanes)), cut(std::min(i + 1, lanes))});
  return parts;
}

std::vector<Range> chunks_of(Range range, int64_t chunk) {
  std::vector<Range> result;
  for (int64_t begin = range.begin; begin < range.end; begin += chunk) {
    result.push_back({begin, std::min(begin + chunk, range.end)});
  }
  return result;
}

MpiGroup::MpiGroup(MPI_Comm group, int64_t chunk) : chunk_(chunk) {
  expects(chunk > 0 && chunk <= INT_MAX);
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(group, &copy));
  comm_.reset(copy);
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_rank(copy, &rank_));
  check_mpi(MPI_Comm_size(copy, &size_));
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

void MpiGroup::all_reduce(Tensor out, Tensor in) const {
  expects(out.size() == in.size() && out.dtype() == in.dtype());
  const bool in_place = out.raw() == in.raw();
  for (const Range& range : chunks_of({0, out.size()}, chunk_)) {
    check_mpi(MPI_Allreduce(in_place ? MPI_IN_PLACE : in.flat(range).raw(), out.flat(range).raw(),
                            to_int(range.size()), type_of(out.dtype()), sum_of(out.dtype()), comm_.get()));
  }
}

void MpiGroup::reduce_scatter(Tensor out, Tensor in, const std::vector<Range>& parts) const {
  expects(std::ssize(parts) == size_ && total_of(parts) <= out.size() && out.dtype() == in.dtype());
  const bool in_place = out.raw() == in.raw();
  const MPI_Datatype type = type_of(out.dtype());
  const MPI_Op sum = sum_of(out.dtype());
  const int64_t total = total_of(parts);
  if (total == 0) return;

  if (total <= chunk_) {
    std::vector<int> counts;
    for (const Range& part : parts) counts.push_back(to_int(part.size()));
    const Tensor own = out.flat(parts[static_cast<size_t>(rank_)]);
    if (in_place) {
      // MPI leaves a rank's part at the front of the buffer, whatever the rank.
      check_mpi(MPI_Reduce_scatter(MPI_IN_PLACE, out.raw(), counts.data(), type, sum, comm_.get()));
      std::memmove(own.raw(), out.raw(), static_cast<size_t>(own.bytes()));
    } else {
      check_mpi(MPI_Reduce_scatter(in.raw(), own.raw(), counts.data(), type, sum, comm_.get()));
    }
    return;
  }
  for (int owner = 0; owner < size_; ++owner) {
    for (const Range& range : chunks_of(parts[static_cast<size_t>(owner)], chunk_)) {
      const void* source = in_place && owner == rank_ ? MPI_IN_PLACE : in.flat(range).raw();
      check_mpi(
          MPI_Reduce(source, out.flat(range).raw(), to_int(range.size()), type, sum, owner, comm_.get()));
    }
  }
}

void MpiGroup::all_gather(Tensor data, const std::vector<Range>& parts) const {
  expects(std::ssize(parts) == size_ && total_of(parts) <= data.size());
  const int64_t total = total_of(parts);
  if (total == 0) return;

  if (total <= chunk_) {
    std::vector<int> counts, offsets;
    for (const Range& part : parts) {
      counts.push_back(to_int(part.size()));
      offsets.push_back(to_int(part.begin));
    }
    check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.raw(), counts.data(), offsets.data(),
                             type_of(data.dtype()), comm_.get()));
    return;
  }
  for (int owner = 0; owner < size_; ++owner) {
    const Range& part = parts[static_cast<size_t>(owner)];
    if (!part.empty()) broadcast(data.flat(part), owner);
  }
}

void MpiGroup::broadcast(Tensor data, int root) const {
  for (const Range& range : chunks_of({0, data.size()}, chunk_)) {
    check_mpi(
        MPI_Bcast(data.flat(range).raw(), to_int(range.size()), type_of(data.dtype()), root, comm_.get()));
  }
}

void MpiGroup::barrier() const { check_mpi(MPI_Barrier(comm_.get())); }

}  // namespace gpt
