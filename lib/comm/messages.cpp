#include "comm/messages.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <climits>
#include <exception>

namespace gpt {
namespace {

int byte_count(const Tensor& data) {
  ensures(data.bytes() <= INT_MAX);
  return static_cast<int>(data.bytes());
}

}  // namespace

void RequestPool::progress() {
  if (requests_.empty()) return;
  finished_.resize(requests_.size());
  int count = 0;
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(),
                         MPI_STATUSES_IGNORE));
  if (count <= 0) return;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<size_t>(finished_[static_cast<size_t>(i)]);
    if (owners_[index] != nullptr) --owners_[index]->pending_;
  }
  size_t kept = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    owners_[kept++] = owners_[i];
  }
  requests_.resize(kept);
  owners_.resize(kept);
}

Requests::~Requests() {
  if (pending_ > 0) std::ranges::replace(pool_.owners_, this, static_cast<Requests*>(nullptr));
}

MPI_Request& Requests::add() {
  pool_.owners_.push_back(this);
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
}

Messages::~Messages() {
  // Freeing is collective: while an exception passes, the other ranks may never come to it.
  if (std::uncaught_exceptions() > 0) comm_.release();
}

void Messages::send(Requests& requests, Tensor data, int to, int tag) const {
  if (data.size() == 0) return;
  check_mpi(MPI_Isend(data.raw(), byte_count(data), MPI_BYTE, to, tag, comm_.get(), &requests.add()));
}

void Messages::receive(Requests& requests, Tensor data, int from, int tag) const {
  if (data.size() == 0) return;
  check_mpi(MPI_Irecv(data.raw(), byte_count(data), MPI_BYTE, from, tag, comm_.get(), &requests.add()));
}

}  // namespace gpt
