#include "../device.hpp"
#include "../failure.hpp"
#include "../memory.hpp"
#include "element.hpp"
#include "operation.hpp"

#include <fmt/format.h>

using namespace standin;

namespace {

/// What can be said before anything runs.
ncclResult_t check_arguments(const ncclComm* comm, ncclDataType_t type, ncclRedOp_t reduction, int peer) {
  if (!is_alive(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
  if (comm->state != ncclSuccess || comm->finalized)
    return refuse(ncclInvalidUsage, "the communicator is not ready");
  if (element_bytes(type) == 0) return refuse(ncclInvalidArgument, fmt::format("type {}", int(type)));
  if (reduction < ncclSum || reduction > ncclAvg)
    return refuse(ncclInvalidArgument, fmt::format("reduction {}", int(reduction)));
  if (peer < 0 || peer >= comm->size)
    return refuse(ncclInvalidArgument, fmt::format("rank {} of {}", peer, comm->size));
  return ncclSuccess;
}

/// The stream, which must be of the communicator's device.
CUstream_st& stream_for(const ncclComm& comm, cudaStream_t handle) {
  CUstream_st& stream = stream_of(handle);
  if (stream.device != comm.device)
    fail("NCCL: the communicator is of device {}, the stream of device {}", comm.device, stream.device);
  return stream;
}

/// Where a rank's part of the elements lies when both buffers are one.
bool overlap_is_in_place(const ncclComm& comm, const Terms& terms, const char* send, const char* receive) {
  const size_t part = size_t(comm.rank) * terms.count * element_bytes(terms.type);
  switch (terms.meeting) {
    case Meeting::reduce_scatter:
      return receive == send + part;
    case Meeting::all_gather:
      return send == receive + part;
    default:
      return send == receive;
  }
}

/// @param sent, received  elements of the buffers; 0 for one that this rank does not use
void check_buffers(const ncclComm& comm, const Terms& terms, const void* send, size_t sent,
                   const void* receive, size_t received) {
  const size_t send_bytes = sent * element_bytes(terms.type),
               receive_bytes = received * element_bytes(terms.type);
  if (send_bytes > 0) check_device_range(send, send_bytes, comm.device, "NCCL's send buffer");
  if (receive_bytes > 0) check_device_range(receive, receive_bytes, comm.device, "NCCL's receive buffer");
  if (send_bytes == 0 || receive_bytes == 0) return;
  const auto* from = static_cast<const char*>(send);
  const auto* to = static_cast<const char*>(receive);
  if (from < to + receive_bytes && to < from + send_bytes && !overlap_is_in_place(comm, terms, from, to))
    fail("NCCL: the buffers of {} overlap and are not those of an operation in place", describe(terms));
}

/// @param sent, received  as a multiple of the count
ncclResult_t meet(ncclComm* comm, Terms terms, const void* send, size_t sent, void* receive, size_t received,
                  cudaStream_t stream) {
  if (const ncclResult_t result = check_arguments(comm, terms.type, terms.reduction, terms.root))
    return result;
  Call call;
  CUstream_st& target = stream_for(*comm, stream);
  terms.serial = comm->issued++;
  check_buffers(*comm, terms, send, sent * terms.count, receive, received * terms.count);
  issue(new_collective(*comm, terms, send, receive), target, call);
  return ncclSuccess;
}

}  // namespace

extern "C" {
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return meet(comm, {Meeting::all_reduce, datatype, op, 0, count, 0}, sendbuff, 1, recvbuff, 1, stream);
}
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  const bool receives = is_alive(comm) && comm->rank == root;
  return meet(comm, {Meeting::reduce, datatype, op, root, count, 0}, sendbuff, 1, recvbuff, receives ? 1 : 0,
              stream);
}
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const bool sends = is_alive(comm) && comm->rank == root;
  return meet(comm, {Meeting::broadcast, datatype, ncclSum, root, count, 0}, sendbuff, sends ? 1 : 0,
              recvbuff, 1, stream);
}
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  const size_t ranks = is_alive(comm) ? size_t(comm->size) : 0;
  return meet(comm, {Meeting::reduce_scatter, datatype, op, 0, recvcount, 0}, sendbuff, ranks, recvbuff, 1,
              stream);
}
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t ranks = is_alive(comm) ? size_t(comm->size) : 0;
  return meet(comm, {Meeting::all_gather, datatype, ncclSum, 0, sendcount, 0}, sendbuff, 1, recvbuff, ranks,
              stream);
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (const ncclResult_t result = check_arguments(comm, datatype, ncclSum, peer)) return result;
  Call call;
  CUstream_st& target = stream_for(*comm, stream);
  if (count > 0)
    check_device_range(sendbuff, count * element_bytes(datatype), comm->device, "NCCL's send buffer");
  issue(new_send(*comm, sendbuff, count, datatype, peer), target, call);
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (const ncclResult_t result = check_arguments(comm, datatype, ncclSum, peer)) return result;
  Call call;
  CUstream_st& target = stream_for(*comm, stream);
  if (count > 0)
    check_device_range(recvbuff, count * element_bytes(datatype), comm->device, "NCCL's receive buffer");
  issue(new_receive(*comm, recvbuff, count, datatype, peer), target, call);
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return cudaMalloc(ptr, size) == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, "out of memory");
}
ncclResult_t ncclMemFree(void* ptr) {
  return cudaFree(ptr) == cudaSuccess ? ncclSuccess : refuse(ncclInvalidArgument, "not an allocation");
}
}
