#include "comm/nccl/nccl_group.hpp"

#include "base/contracts.hpp"
#include "comm/nccl/nccl_error.hpp"
#include "device/cuda/native.hpp"

#include <utility>

namespace gpt {
namespace {

size_t count_of(const Tensor& data) { return static_cast<size_t>(data.size()); }

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<NcclCalls> calls, ncclComm_t comm, int rank, int size)
    : calls_(std::move(calls)), comm_(comm), rank_(rank), size_(size) {}

std::unique_ptr<NcclGroup> NcclGroup::split(int color, int key) const {
  const ncclComm_t part = calls_->split(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key);
  if (part == nullptr) return nullptr;
  int rank = 0, size = 0;
  calls_->call(part, [&] { return ncclCommUserRank(part, &rank); });
  calls_->call(part, [&] { return ncclCommCount(part, &size); });
  return std::make_unique<NcclGroup>(calls_, part, rank, size);
}

void NcclGroup::together(const std::function<void()>& body) const { calls_->group(comm_, body); }

void NcclGroup::all_reduce(Tensor out, Tensor in, Queue& queue) const {
  if (in.size() == 0) return;
  check_nccl(ncclAllReduce(in.raw(), out.raw(), count_of(in), nccl_type(in.dtype()), ncclSum, comm_,
                           stream_of(queue)));
}

void NcclGroup::reduce_scatter(Tensor data, Queue& queue) const {
  const Tensor mine = piece(data);
  if (mine.size() == 0) return;
  check_nccl(ncclReduceScatter(data.raw(), mine.raw(), count_of(mine), nccl_type(data.dtype()), ncclSum,
                               comm_, stream_of(queue)));
}

void NcclGroup::all_gather(Tensor data, Queue& queue) const {
  const Tensor mine = piece(data);
  if (mine.size() == 0) return;
  check_nccl(ncclAllGather(mine.raw(), data.raw(), count_of(mine), nccl_type(data.dtype()), comm_,
                           stream_of(queue)));
}

void NcclGroup::reduce(Tensor data, int root, Queue& queue) const {
  if (data.size() == 0) return;
  check_nccl(ncclReduce(data.raw(), data.raw(), count_of(data), nccl_type(data.dtype()), ncclSum, root, comm_,
                        stream_of(queue)));
}

void NcclGroup::broadcast(Tensor data, int root, Queue& queue) const {
  if (data.size() == 0) return;
  check_nccl(ncclBroadcast(data.raw(), data.raw(), count_of(data), nccl_type(data.dtype()), root, comm_,
                           stream_of(queue)));
}

void NcclGroup::send(Tensor data, int to, Queue& queue) const {
  if (data.size() == 0) return;
  check_nccl(ncclSend(data.raw(), count_of(data), nccl_type(data.dtype()), to, comm_, stream_of(queue)));
}

void NcclGroup::receive(Tensor data, int from, Queue& queue) const {
  if (data.size() == 0) return;
  check_nccl(ncclRecv(data.raw(), count_of(data), nccl_type(data.dtype()), from, comm_, stream_of(queue)));
}

Tensor NcclGroup::piece(Tensor data) const {
  expects(data.size() % size_ == 0);
  return data.flat(part_of(data.size(), size_, rank_));
}

}  // namespace gpt
