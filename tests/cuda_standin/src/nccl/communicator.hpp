#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <nccl.h>
#include <string>

struct CUstream_st;

/// Kept in memory after its end, for work that still names it.
struct ncclComm {
  int rank = 0;
  int size = 0;
  int device = 0;
  bool blocking = true;
  void* memory = nullptr;        ///< of the device, for NCCL itself; null: none
  MPI_Comm mpi = MPI_COMM_NULL;  ///< set before `state` becomes ncclSuccess
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::atomic<bool> aborted = false;
  std::atomic<bool> finalized = false;
  int splits = 0;  ///< only touched by the thread that makes communicators

  // With the lock of everything:
  uint64_t issued = 0;  ///< collectives so far
  std::shared_ptr<CUstream_st> last_stream;
  uint64_t last_position = 0;  ///< behind the last operation, in that stream
};

namespace standin {

/// Kinds of meetings of all ranks.
enum class Meeting { all_reduce, reduce, broadcast, all_gather, reduce_scatter, finalize };

/// What all ranks must agree on.
struct Terms {
  Meeting meeting;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int root;
  uint64_t count;
  uint64_t serial;  ///< number of collectives of the communicator before this one

  bool operator==(const Terms&) const = default;
};
std::string describe(const Terms& terms);

/// Ends the program with all ranks' terms unless they are the same.
void check_terms(const Terms* of_ranks, int ranks);

/// Adds a communicator that is being made, and @returns it.
ncclComm* new_communicator(int rank, int size, const ncclConfig_t* config, const ncclComm* parent);
/// Whether a handle is of a communicator that was not destroyed or aborted.
bool is_alive(const ncclComm* comm);
void forget_communicator(ncclComm* comm);

/// Keeps a text for ncclGetLastError and returns `result`.
ncclResult_t refuse(ncclResult_t result, const std::string& why);

/// Tags of messages between two ranks of a communicator.
inline constexpr int kPointToPointTag = 1, kSplitTag = 2;

}  // namespace standin
