// How communicators are made. Ranks that are already connected by MPI meet in plain messages, so that one
// that never comes leaves the others waiting where they can be aborted, and not in a collective of MPI.
#include "../call.hpp"
#include "../device.hpp"
#include "../failure.hpp"
#include "../memory.hpp"
#include "../settings.hpp"
#include "communicator.hpp"
#include "setup_thread.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string_view>
#include <vector>

using namespace standin;

namespace {

/// What an ncclUniqueId holds: who collects the members, and under which tag.
struct Invitation {
  int host;
  int tag;
};
constexpr int kFirstTag = 16384, kTags = 4096, kReply = kTags;

/// A rank that wants to be a member, with its number there and in MPI_COMM_WORLD.
struct Member {
  int rank;
  int world_rank;
  int size;
};

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

bool receive(const ncclComm& comm, void* data, size_t bytes, int source, int tag, MPI_Comm mpi) {
  const auto arrived = [&] {
    int flag = 0;
    MPI_Iprobe(source, tag, mpi, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  };
  if (!wait_for(comm, arrived)) return false;
  MPI_Recv(data, int(bytes), MPI_BYTE, source, tag, mpi, MPI_STATUS_IGNORE);
  return true;
}

void send(const void* data, size_t bytes, int target, int tag, MPI_Comm mpi) {
  MPI_Send(data, int(bytes), MPI_BYTE, target, tag, mpi);
}

/// All ranks' entries, in the order of the ranks.
/// @returns nothing if it was aborted
std::vector<Member> meet(const ncclComm& comm, const Member& self, const Invitation& invitation) {
  std::vector<Member> members(size_t(comm.size));
  const int reply = invitation.tag + kReply;
  if (self.world_rank != invitation.host) {
    send(&self, sizeof self, invitation.host, invitation.tag, MPI_COMM_WORLD);
    if (!receive(comm, members.data(), sizeof(Member) * members.size(), invitation.host, reply,
                 MPI_COMM_WORLD))
      return {};
    return members;
  }
  for (Member& member : members) member.size = 0;
  for (int i = 0; i < comm.size; ++i) {
    Member member = self;
    if (i > 0 && !receive(comm, &member, sizeof member, MPI_ANY_SOURCE, invitation.tag, MPI_COMM_WORLD))
      return {};
    if (member.size != comm.size)
      fail("NCCL: ranks {} and {} make a communicator of {} and {} ranks", self.rank, member.rank, comm.size,
           member.size);
    if (members[size_t(member.rank)].size > 0)
      fail("NCCL: rank {} comes twice to a communicator", member.rank);
    members[size_t(member.rank)] = member;
  }
  for (const Member& member : members)
    if (member.world_rank != self.world_rank)
      send(members.data(), sizeof(Member) * members.size(), member.world_rank, reply, MPI_COMM_WORLD);
  return members;
}

MPI_Comm group_of(MPI_Comm parent, const std::vector<int>& ranks, int tag) {
  MPI_Group all, some;
  MPI_Comm_group(parent, &all);
  MPI_Group_incl(all, int(ranks.size()), ranks.data(), &some);
  MPI_Comm result = MPI_COMM_NULL;
  MPI_Comm_create_group(parent, some, tag, &result);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return result;
}

ncclResult_t make(ncclComm& comm, const Invitation& invitation) {
  const std::vector<Member> members = meet(comm, {comm.rank, world_rank(), comm.size}, invitation);
  if (members.empty()) return ncclInternalError;
  std::vector<int> ranks;
  for (const Member& member : members) ranks.push_back(member.world_rank);
  comm.mpi = group_of(MPI_COMM_WORLD, ranks, invitation.tag);
  return ncclSuccess;
}

struct Choice {
  int color;
  int key;
};

/// All ranks' choices; nothing if it was aborted. Rank 0 collects them.
std::vector<Choice> exchange_choices(const ncclComm& parent, const Choice& self) {
  std::vector<Choice> choices(size_t(parent.size), self);
  if (parent.rank != 0) {
    send(&self, sizeof self, 0, kSplitTag, parent.mpi);
    if (!receive(parent, choices.data(), sizeof(Choice) * choices.size(), 0, kSplitTag, parent.mpi))
      return {};
    return choices;
  }
  for (int rank = 1; rank < parent.size; ++rank)
    if (!receive(parent, &choices[size_t(rank)], sizeof(Choice), rank, kSplitTag, parent.mpi)) return {};
  for (int rank = 1; rank < parent.size; ++rank)
    send(choices.data(), sizeof(Choice) * choices.size(), rank, kSplitTag, parent.mpi);
  return choices;
}

ncclResult_t split(ncclComm& parent, ncclComm* child, const Choice& self) {
  const int tag = parent.splits++ % kTags;
  const std::vector<Choice> choices = exchange_choices(parent, self);
  if (choices.empty()) {
    if (child) child->state = ncclInternalError;
    return ncclInternalError;
  }
  if (!child) return ncclSuccess;
  std::vector<int> ranks;
  for (int rank = 0; rank < parent.size; ++rank)
    if (choices[size_t(rank)].color == self.color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return choices[size_t(a)].key < choices[size_t(b)].key; });
  child->size = int(ranks.size());
  child->rank = int(std::find(ranks.begin(), ranks.end(), parent.rank) - ranks.begin());
  child->mpi = group_of(parent.mpi, ranks, tag);
  child->state = ncclSuccess;
  return ncclSuccess;
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// A new communicator with what it takes of its device; null when the device has not that much left.
ncclComm* make_with_memory(int rank, int size, const ncclConfig_t* config, const ncclComm* parent) {
  ncclComm* const made = new_communicator(rank, size, config, parent);
  const size_t bytes = settings().nccl_memory;
  if (bytes == 0) return made;
  const Call call;
  made->memory = allocate(bytes, cudaMemoryTypeDevice, made->device);
  if (made->memory) return made;
  forget_communicator(made);
  return nullptr;
}

/// A configuration must come from NCCL_CONFIG_INITIALIZER.
bool is_initialized(const ncclConfig_t* config) {
  return !config || (config->size == sizeof(ncclConfig_t) && config->magic == 0xcafebeef);
}

}  // namespace

extern "C" {
ncclResult_t ncclGetVersion(int* version) {
  const std::string_view wanted = variable("GPT_CUDA_STANDIN_NCCL_VERSION");
  *version = wanted.empty() ? NCCL_VERSION_CODE : std::atoi(wanted.data());
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  static int serial = 0;
  const Invitation invitation{world_rank(), kFirstTag + serial++ % kTags};
  *uniqueId = {};
  std::memcpy(uniqueId->internal, &invitation, sizeof invitation);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return ncclCommInitRankConfig(comm, nranks, commId, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  if (!comm || nranks < 1 || rank < 0 || rank >= nranks || !is_initialized(config))
    return refuse(
        ncclInvalidArgument,
        fmt::format("rank {} of {} ranks, or a configuration that was not initialised", rank, nranks));
  if (device_count() == 0) return refuse(ncclUnhandledCudaError, "no CUDA-capable device is detected");
  if (variable("GPT_CUDA_STANDIN_NCCL_INIT") == "system")
    return refuse(ncclSystemError, "a system error, as GPT_CUDA_STANDIN_NCCL_INIT asks for");
  Invitation invitation;
  std::memcpy(&invitation, commId.internal, sizeof invitation);
  ncclComm* made = *comm = make_with_memory(rank, nranks, config, nullptr);
  if (!made) return refuse(ncclUnhandledCudaError, "out of memory");
  run_in_setup_thread(made, [made, invitation] { return make(*made, invitation); });
  return made->blocking ? settle(*made, "ncclCommInitRank") : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  if (!is_alive(comm) || !newcomm || !is_initialized(config) || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return refuse(ncclInvalidArgument, fmt::format("split with color {} of an unusable communicator", color));
  if (comm->state != ncclSuccess)
    return refuse(ncclInvalidUsage, "split of a communicator that is not ready");
  ncclComm* child = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) {
    child = make_with_memory(0, 1, config, comm);
    if (!child) return refuse(ncclUnhandledCudaError, "out of memory");
  }
  *newcomm = child;
  run_in_setup_thread(comm, [comm, child, color, key] { return split(*comm, child, {color, key}); });
  return comm->blocking ? settle(*comm, "ncclCommSplit") : ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  if (!is_alive(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
  *asyncError = comm->state;
  if (*asyncError == ncclSuccess && variable("GPT_CUDA_STANDIN_NCCL_ASYNC") == "remote") {
    *asyncError = ncclRemoteError;
    refuse(ncclRemoteError, "a remote error, as GPT_CUDA_STANDIN_NCCL_ASYNC asks for");
  }
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  *count = comm->size;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}
}
