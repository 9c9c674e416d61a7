// How communicators end.
#include "../failure.hpp"
#include "../memory.hpp"
#include "../stream.hpp"
#include "communicator.hpp"
#include "setup_thread.hpp"

#include <vector>

using namespace standin;

namespace {

/// Runs all operations of the communicator, and makes sure that the other ranks had as many.
ncclResult_t finalize(ncclComm& comm) {
  Terms terms{Meeting::finalize, ncclInt8, ncclSum, 0, 0, 0};
  {
    Call call;
    if (comm.last_stream) drain(*std::shared_ptr(comm.last_stream), comm.last_position, call);
    terms.serial = comm.issued;
  }
  std::vector<Terms> of_ranks(size_t(comm.size));
  MPI_Request request;
  MPI_Iallgather(&terms, sizeof terms, MPI_BYTE, of_ranks.data(), sizeof terms, MPI_BYTE, comm.mpi, &request);
  const auto arrived = [&] {
    int flag = 0;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  };
  if (!wait_for(comm, arrived)) return ncclInternalError;
  check_terms(of_ranks.data(), comm.size);
  comm.finalized = true;
  return ncclSuccess;
}

}  // namespace

extern "C" {
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!is_alive(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
  if (comm->state != ncclSuccess || comm->finalized)
    return refuse(ncclInvalidUsage, "finalize of a communicator that is not ready");
  run_in_setup_thread(comm, [comm] { return finalize(*comm); });
  return comm->blocking ? settle(*comm, "ncclCommFinalize") : ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  if (!is_alive(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
  if (comm->state == ncclSuccess && !comm->finalized)
    run_in_setup_thread(comm, [comm] { return finalize(*comm); });
  const ncclResult_t result = settle(*comm, "ncclCommDestroy");
  forget_communicator(comm);
  if (comm->memory) {
    const Call call;
    release(comm->memory, cudaMemoryTypeDevice);
  }
  if (comm->mpi != MPI_COMM_NULL && result == ncclSuccess) MPI_Comm_free(&comm->mpi);
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  if (!is_alive(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
  comm->aborted = true;
  forget_communicator(comm);
  return ncclSuccess;
}
}
