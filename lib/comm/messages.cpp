#include "comm/messages.hpp"

#include "base/error.hpp"

#include <climits>
#include <exception>
#include <numeric>

namespace gpt {
namespace {

int byte_count(const Tensor& data) {
  validate(data.bytes() <= INT_MAX, "a message of {} bytes: MPI counts up to {}, use smaller blocks",
           data.bytes(), INT_MAX);
  return static_cast<int>(data.bytes());
}

std::vector<int> job_ranks_of(MPI_Comm comm, int size) {
  MPI_Group group = MPI_GROUP_NULL, job = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm, &group));
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &job));
  std::vector<int> members(static_cast<size_t>(size)), ranks(members);
  std::iota(members.begin(), members.end(), 0);
  check_mpi(MPI_Group_translate_ranks(group, size, members.data(), job, ranks.data()));
  check_mpi(MPI_Group_free(&group));
  check_mpi(MPI_Group_free(&job));
  return ranks;
}

}  // namespace

void RequestPool::progress() {
  if (requests_.empty()) return;
  finished_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int rc = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(),
                              statuses_.data());
  if (rc != MPI_SUCCESS) fail(rc, count);
  drop_finished();
}

// Of those that were null from the start MPI_Testsome says nothing.
void RequestPool::drop_finished() {
  size_t kept = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) {
      if (entries_[i].owner != nullptr) --entries_[i].owner->pending_;
      continue;
    }
    requests_[kept] = requests_[i];
    entries_[kept++] = entries_[i];
  }
  requests_.resize(kept);
  entries_.resize(kept);
}

void RequestPool::fail(int rc, int finished) const {
  int kind = 0;
  check_mpi(MPI_Error_class(rc, &kind));
  for (int i = 0; kind == MPI_ERR_IN_STATUS && i < finished; ++i) {
    const int of_message = statuses_[static_cast<size_t>(i)].MPI_ERROR;
    if (of_message == MPI_SUCCESS || of_message == MPI_ERR_PENDING) continue;
    const int peer = entries_[static_cast<size_t>(finished_[static_cast<size_t>(i)])].peer;
    const std::string where =
        peer == Requests::nobody ? "" : fmt::format(", in a message with rank {}", peer);
    throw Error(fmt::format("MPI: {}{}", mpi_error_text(of_message), where), ExitCode::rank_failed);
  }
  throw Error(fmt::format("MPI: {}", mpi_error_text(rc)), ExitCode::rank_failed);
}

Turn::Turn(RequestPool& pool) : pool_(pool) {
  validate(!pool.is_taken_.exchange(true), ExitCode::failed,
           "two operations of one communicator at once: let one queue wait for the other's");
}

Requests::~Requests() {
  if (pending_ == 0) return;
  for (RequestPool::Entry& entry : pool_.entries_)
    if (entry.owner == this) entry.owner = nullptr;
}

MPI_Request& Requests::add(int peer) {
  pool_.entries_.push_back({this, peer});
  ++pending_;
  return pool_.requests_.emplace_back(MPI_REQUEST_NULL);
}

CommHandle duplicate(MPI_Comm group) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(group, &copy));
  CommHandle handle(copy);
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  return handle;
}

Messages::Messages(MPI_Comm group) : comm_(duplicate(group)) {
  check_mpi(MPI_Comm_rank(comm_.get(), &rank_));
  check_mpi(MPI_Comm_size(comm_.get(), &size_));
  job_ranks_ = job_ranks_of(comm_.get(), size_);
}

Messages::~Messages() {
  // Freeing is collective: while an exception passes, the other ranks may never come to it.
  if (std::uncaught_exceptions() > 0) comm_.release();
}

int Messages::neighbour(int distance) const { return ((rank_ + distance) % size_ + size_) % size_; }

void Messages::send(Requests& requests, Tensor data, int to, int tag) const {
  if (data.size() == 0) return;
  const int bytes = byte_count(data);
  MPI_Request& request = requests.add(job_ranks_[static_cast<size_t>(to)]);
  check_mpi(MPI_Isend(data.raw(), bytes, MPI_BYTE, to, tag, comm_.get(), &request));
}

void Messages::receive(Requests& requests, Tensor data, int from, int tag) const {
  if (data.size() == 0) return;
  const int bytes = byte_count(data);
  MPI_Request& request = requests.add(job_ranks_[static_cast<size_t>(from)]);
  check_mpi(MPI_Irecv(data.raw(), bytes, MPI_BYTE, from, tag, comm_.get(), &request));
}

}  // namespace gpt
